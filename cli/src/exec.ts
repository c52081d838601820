import { fstatSync } from 'node:fs'
import type { Readable } from 'node:stream'
import type { Command, OutputOptions, Workspace } from '../../sdk/typescript/src/main.ts'
import { type Context, type Run, usageError } from './command.ts'
import { exitCodeOf, sizeOf, written } from './ending.ts'

const STDIN_BYTES_MAX = 1 << 20
const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const

export const exec: Run = async (context, [name = '']) => {
  const { flags, rest } = context
  if (rest.length === 0) throw usageError('What is to be run stands after --', 'berth exec WORKSPACE -- COMMAND')
  const ws = await context.workspace(name)
  const { id } = flags
  const named = typeof id === 'string' ? { [ws.view.mode === 'file_first' ? 'execution_id' : 'session_id']: id } : {}
  const options = { ...optionsOf(flags), ...named }
  if (wantsTerminal(flags)) {
    const { carryTerminal } = await import('./terminal.ts')
    return carryTerminal(await ws.shell({ argv: [...rest], ...sizeOf(), ...only(options, ['cwd', 'env', 'user', 'session_id']) }))
  }
  const piped = flags['no-stdin'] === true ? null : await stdinOf(ws)
  const argv = piped?.file === undefined ? [...rest] : ['sh', '-c', 'exec < "$0" && rm -f "$0" && exec "$@"', piped.file, ...rest]
  const asked = { ...options, ...(piped?.bytes ? { stdin: piped.bytes } : {}) }
  if (ws.view.mode === 'file_first') return runToEnd(ws, argv, asked)
  const command = await ws.start(argv, asked)
  if (flags['detach'] === true) return void context.print({ id: command.id })
  return follow(command)
}

function optionsOf(flags: Context['flags']): Record<string, unknown> {
  const timeout = flags['timeout']
  const env = (flags['env'] as unknown as string[] | undefined)?.map((pair) => {
    const at = pair.indexOf('=')
    if (at < 1) throw usageError(`--env takes NAME=VALUE, not ${pair}`)
    return [pair.slice(0, at), pair.slice(at + 1)]
  })
  return {
    ...only(flags, ['cwd', 'user']),
    ...(env ? { env: Object.fromEntries(env) as Record<string, string> } : {}),
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

/** Up to 1 MiB goes with the request; more goes into a file first, which the command reads and nobody else sees. */
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

/** Shows what it writes until it ends, or what there is. @returns its exit code; 0 where it runs on */
export async function follow(command: Command, from: OutputOptions = {}): Promise<number> {
  const pass = (signal: NodeJS.Signals) => void command.signal(signal).catch(() => undefined) // it may have ended
  for (const signal of FORWARDED) process.on(signal, pass)
  try {
    for await (const { stream, bytes } of command.output(from)) await written(stream === 'stdout' ? process.stdout : process.stderr, bytes)
    // Whoever does not follow a command that runs sees no end of it.
    return command.ending === null ? 0 : exitCodeOf(command.ending)
  } finally {
    for (const signal of FORWARDED) process.off(signal, pass)
  }
}

async function runToEnd(ws: Workspace, argv: string[], options: object): Promise<number> {
  const result = await ws.exec(argv, options)
  await written(process.stdout, result.stdoutBytes)
  await written(process.stderr, result.stderrBytes)
  const { state, exitCode: exit_code, termSignal: term_signal, error, timedOut: timed_out } = result
  return exitCodeOf({ state, exit_code, term_signal, error, timed_out })
}
