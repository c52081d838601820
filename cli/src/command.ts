import type { Berth, Workspace } from '../../sdk/typescript/src/main.ts'

/** What a command has. */
export interface Context {
  /** Made when it is first asked for: help needs no key. */
  berth(): Berth
  /** The workspace of a key or an id. */
  workspace(name: string): Promise<Workspace>
  flags: Readonly<Record<string, string | boolean | undefined>>
  /** What stands after `--`, or after the words of a command that `runs`. */
  rest: readonly string[]
  /** Whether `--` stands in front of it. */
  dashes: boolean
  json: boolean
  profile: string
  /** Data, on stdout. */
  print(value: unknown, columns?: readonly string[]): void
  /** For people, on stderr. */
  say(text: string): void
}

/** An option of `parseArgs`, and its line in `--help` and in the reference. */
export interface Flag {
  type: 'string' | 'boolean'
  multiple?: true
  short?: string
  /** Stands for what it takes. */
  value?: string
  says: string
}

export interface CliCommand {
  /** `secrets list`: the words that call it. */
  name: string
  /** What comes after them. */
  takes?: string
  does: string
  flags?: Readonly<Record<string, Flag>>
  /** How many words it takes: at least, at most. */
  words: readonly [number, number]
  /** It runs a command in a workspace, which begins after its last word. A flag of that command is none of this one. */
  runs?: true
  run: Run
}

/** @returns the exit code; 0 where there is none */
export type Run = (context: Context, words: readonly string[]) => Promise<number | undefined> | number | undefined

/** Told as it is, without a stack: what is wrong, and the command that may help. */
export class CliError extends Error {
  readonly exit_code: number
  readonly next: string | null
  constructor(message: string, { exit_code = 1, next = null }: { exit_code?: number; next?: string | null } = {}) {
    super(message)
    this.exit_code = exit_code
    this.next = next
  }
}

/** `NAME=VALUE`, of a flag that may be given several times. */
export function namedValue(flag: string, pair: string): [name: string, value: string] {
  const at = pair.indexOf('=')
  if (at < 1) throw usageError(`--${flag} takes NAME=VALUE, not ${pair}`)
  return [pair.slice(0, at), pair.slice(at + 1)]
}

export function usageError(message: string, next = 'berth help'): CliError {
  return new CliError(message, { exit_code: 2, next })
}
