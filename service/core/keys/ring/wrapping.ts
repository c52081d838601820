import { spawn } from 'node:child_process'
import { once } from 'node:events'

/** An external key service: a copy of the folder is useless without it. */
export interface KeyWrapper {
  wrap(key: Buffer): Promise<Buffer>
  unwrap(wrapped: Buffer): Promise<Buffer>
}

const ANSWER_MS = 20_000
const ANSWER_BYTES_MAX = 64 * 1024
const COMPLAINT_CHARACTERS_MAX = 500
/** Not the service's own environment, which contains the database password. */
const ENVIRONMENT = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' }

/** Runs a program that reads the input from stdin, and writes the result to stdout. */
export function commandKeyWrapper(program: string, answer_ms: number = ANSWER_MS): KeyWrapper {
  const run = (verb: 'wrap' | 'unwrap') => (given: Buffer) => answerOf(program, verb, given, answer_ms)
  return { wrap: run('wrap'), unwrap: run('unwrap') }
}

async function answerOf(program: string, verb: string, given: Buffer, answer_ms: number): Promise<Buffer> {
  const failed = (why: string) => new Error(`${program} ${verb}: ${why}`)
  // Detached, so that the program's children are killed with it.
  const child = spawn(program, [verb], { env: ENVIRONMENT, detached: true, stdio: ['pipe', 'pipe', 'pipe'] })
  const end = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    } catch {
      // the program has already exited
    }
  }
  const deadline = setTimeout(end, answer_ms)
  try {
    const answer: Buffer[] = []
    let [bytes, complaint] = [0, '']
    child.stdout.on('data', (part: Buffer) => {
      answer.push(part)
      if ((bytes += part.length) > ANSWER_BYTES_MAX) end()
    })
    child.stderr.setEncoding('utf8').on('data', (part: string) => {
      if (complaint.length < COMPLAINT_CHARACTERS_MAX) complaint += part
    })
    child.stdin.on('error', () => undefined) // the exit code tells why the program stopped reading
    child.stdin.end(given)
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
    const said = complaint.trim().slice(0, COMPLAINT_CHARACTERS_MAX)
    if (bytes > ANSWER_BYTES_MAX) throw failed(`its answer is larger than ${ANSWER_BYTES_MAX} bytes`)
    if (signal !== null) throw failed(`it was ended by ${signal}, or took longer than ${answer_ms / 1000} s`)
    if (code !== 0) throw failed(`it ended with ${code}${said === '' ? '' : `: ${said}`}`)
    if (bytes === 0) throw failed('it answered nothing')
    return Buffer.concat(answer)
  } finally {
    clearTimeout(deadline)
  }
}
