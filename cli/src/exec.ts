import { fstatSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { constants } from 'node:os'
import type { Command, OutputOptions, Workspace } from '../../sdk/typescript/src/main.ts'
import { CliError, type Context, namedValue, type Run, usageError } from './command.ts'
import { exitCodeOf, terminalSize, terminalEnv, writeFully } from './ending.ts'

const STDIN_BYTES_MAX = 1 << 20
const ENDING: ReadonlySet<NodeJS.Signals> = new Set(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'])
const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const

export const exec: Run = async (context, [name = '']) => {
  const { flags } = context
  const rest = wordsOf(context)
  const ws = await context.workspace(name)
  const { id } = flags
  const named = typeof id === 'string' ? { [ws.view.mode === 'file_first' ? 'execution_id' : 'session_id']: id } : {}
  const options = { ...optionsOf(flags), ...named }
  if (wantsTerminal(flags)) {
    const { relayTerminal } = await import('./terminal.ts')
    const env = { ...terminalEnv(), ...(options['env'] as Record<string, string> | undefined) }
    return relayTerminal(await ws.shell({ argv: [...rest], ...terminalSize(), ...only(options, ['cwd', 'user', 'session_id']), env }))
  }
  const piped = flags['no-stdin'] === true ? null : await stdinOf(ws)
  const argv = piped?.file === undefined ? [...rest] : ['sh', '-c', 'exec < "$0" && rm -f "$0" && exec "$@"', piped.file, ...rest]
  const asked = { ...options, ...(piped?.bytes ? { stdin: piped.bytes } : {}) }
  if (ws.view.mode === 'file_first') return runToEnd(ws, argv, asked)
  const command = await ws.start(argv, asked)
  if (flags['detach'] === true) return void context.print({ id: command.id })
  const code = await follow(command)
  // A name with blanks is probably a shell line.
  if (code === COULD_NOT_START && /\s/.test(rest[0] ?? ''))
    context.say(`Try: berth exec ${name} ${JSON.stringify(rest.join(' '))}   (a line for a shell is one word, without --)`)
  return code
}

const COULD_NOT_START = 127

/** Only a single argument without `--` is a shell line. */
function wordsOf({ rest, dashes }: Pick<Context, 'rest' | 'dashes'>): readonly string[] {
  const [line] = rest
  if (line === undefined)
    throw usageError('The command stands after the workspace', "berth exec WORKSPACE COMMAND …, or berth exec WORKSPACE 'LINE'")
  return rest.length === 1 && !dashes ? ['bash', '-lc', line] : rest
}

function optionsOf(flags: Context['flags']): Record<string, unknown> {
  const timeout = flags['timeout']
  const env = (flags['env'] as unknown as string[] | undefined)?.map((pair) => namedValue('env', pair))
  return {
    ...only(flags, ['cwd', 'user']),
    ...(env ? { env: Object.fromEntries(env) } : {}),
    ...(typeof timeout === 'string' ? { timeout_ms: secondsOf(timeout) * 1000 } : {}),
  }
}

function secondsOf(text: string): number {
  const seconds = Number(text)
  if (!(seconds > 0)) throw usageError(`--timeout takes seconds, not ${text}`)
  return seconds
}

function only(from: Readonly<Record<string, unknown>>, names: readonly string[]): Record<string, never> {
  return Object.fromEntries(names.filter((name) => from[name] !== undefined).map((name) => [name, from[name]])) as Record<string, never>
}

function wantsTerminal(flags: Context['flags']): boolean {
  if (flags['no-tty'] === true || flags['detach'] === true) return false
  return flags['tty'] === true || (process.stdin.isTTY && process.stdout.isTTY)
}

/** Sends up to 1 MiB with the request. Larger input becomes a file that only the command's user may read. */
async function stdinOf(ws: Workspace): Promise<{ bytes?: Uint8Array; file?: string } | null> {
  const stat = fstatSync(0)
  if (!stat.isFIFO() && !stat.isFile() && !stat.isSocket()) return null
  const parts: Buffer[] = []
  let bytes = 0
  const stdin: Readable = process.stdin
  const chunks = stdin[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) {
    parts.push(next.value)
    bytes += next.value.length
    if (bytes > STDIN_BYTES_MAX) break
  }
  if (bytes <= STDIN_BYTES_MAX) return bytes === 0 ? null : { bytes: Buffer.concat(parts) }
  const file = ws.view.mode === 'file_first' ? `/home/user/.stdin-${crypto.randomUUID()}` : `/tmp/.stdin-${crypto.randomUUID()}`
  const rest = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const part = parts.shift()
      const next = part ? { done: false, value: part } : await chunks.next()
      if (next.done === true) controller.close()
      else controller.enqueue(next.value)
    },
  })
  await ws.files.write(file, rest, { mode: '0600' })
  return { file }
}

/**
 * Forwards signals. A second terminating signal ends this call, so a service that does not answer cannot block the terminal.
 * @returns 0 if the command still runs
 */
export async function follow(command: Command, from: OutputOptions = {}): Promise<number> {
  const leaving = new AbortController()
  let endings = 0
  const pass = (signal: NodeJS.Signals) => {
    if (ENDING.has(signal) && (endings += 1) > 1)
      leaving.abort(new CliError(`Left; command ${command.id} goes on`, { exit_code: 128 + constants.signals[signal] }))
    else void command.signal(signal, { signal: leaving.signal }).catch(() => undefined) // the command may have ended
  }
  for (const signal of FORWARDED) process.on(signal, pass)
  try {
    const signal = leaving.signal
    for await (const { stream, bytes } of command.output({ ...from, signal }))
      await writeFully(stream === 'stdout' ? process.stdout : process.stderr, bytes)
    return command.ending === null ? 0 : exitCodeOf(command.ending)
  } finally {
    for (const signal of FORWARDED) process.off(signal, pass)
  }
}

async function runToEnd(ws: Workspace, argv: string[], options: object): Promise<number> {
  const result = await ws.exec(argv, { ...options, check: false })
  await writeFully(process.stdout, result.stdoutBytes)
  await writeFully(process.stderr, result.stderrBytes)
  const { state, exitCode: exit_code, termSignal: term_signal, error, timedOut: timed_out, reason = null } = result
  return exitCodeOf({ state, exit_code, term_signal, error, timed_out, reason })
}
