// `internet-names.ts NAMES` answers DNS questions in its namespace: names in NAMES (JSON) have their address, all others do not exist. It
// ends with its stdin.
import { spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { execFileSync } from 'node:child_process'
import type { Internet } from './internet.ts'
import { patience } from './patience.ts'

export const NAME_SERVER = '203.0.113.53'

export async function nameInternet({ uplink }: Pick<Internet, 'uplink'>, names: Record<string, string>): Promise<AsyncDisposable> {
  for (const address of new Set([NAME_SERVER, ...Object.values(names)]))
    execFileSync('ip', ['-n', uplink, 'address', 'replace', `${address}/32`, 'dev', 'lo'], { timeout: patience(60_000) })
  const program = ['netns', 'exec', uplink, process.execPath, import.meta.filename, JSON.stringify(names)]
  const server = spawn('ip', program, { stdio: ['pipe', 'pipe', 'inherit'] })
  await Promise.race([once(server.stdout, 'data'), once(server, 'exit').then(() => Promise.reject(new Error('There are no names')))])
  return {
    async [Symbol.asyncDispose]() {
      server.stdin.end()
      if (server.exitCode === null) await once(server, 'exit')
    },
  }
}

const HEADER_BYTES = 12
const [A, IN] = [1, 1]
const TTL_SECONDS = 60

function answer(question: Buffer, names: Record<string, string>): Buffer {
  const labels: string[] = []
  let at = HEADER_BYTES
  for (let length = question[at] ?? 0; length > 0; length = question[at] ?? 0) {
    labels.push(question.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const end = at + 5 // the last label, the type and the class
  const address = names[labels.join('.').toLowerCase()]
  const is_answered = address !== undefined && question.readUInt16BE(at + 1) === A
  const header = Buffer.from(question.subarray(0, HEADER_BYTES))
  header.writeUInt16BE(address === undefined ? 0x8183 : 0x8180, 2)
  header.writeUInt16BE(is_answered ? 1 : 0, 6)
  header.writeUInt32BE(0, 8) // the answer has only the answer section
  const record = Buffer.alloc(16)
  record.writeUInt16BE(0xc000 + HEADER_BYTES, 0)
  record.writeUInt16BE(A, 2)
  record.writeUInt16BE(IN, 4)
  record.writeUInt32BE(TTL_SECONDS, 6)
  record.writeUInt16BE(4, 10)
  record.set((address ?? '0.0.0.0').split('.').map(Number), 12)
  return Buffer.concat([header, question.subarray(HEADER_BYTES, end), ...(is_answered ? [record] : [])])
}

if (process.argv[1] === import.meta.filename) {
  const names = JSON.parse(process.argv[2] ?? '{}') as Record<string, string>
  const socket = createSocket('udp4')
  socket.on('message', (question, { port, address }) => socket.send(answer(question, names), port, address))
  socket.bind(53, NAME_SERVER, () => process.stdout.write('ready\n'))
  process.stdin.resume().on('end', () => process.exit(0))
}
