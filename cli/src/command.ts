import type { Berth, Workspace } from '../../sdk/typescript/src/main.ts'

export interface Context {
  /** Created at first use, because help needs no key. */
  berth(): Berth
  workspace(name: string): Promise<Workspace>
  flags: Readonly<Record<string, string | boolean | undefined>>
  /** Arguments after `--`, or after the words of a command with `runs`. */
  rest: readonly string[]
  dashes: boolean
  json: boolean
  profile: string
  print(value: unknown, columns?: readonly string[]): void
  say(text: string): void
}

export interface Flag {
  type: 'string' | 'boolean'
  multiple?: true
  short?: string
  value?: string
  says: string
}

export interface CliCommand {
  name: string
  takes?: string
  does: string
  flags?: Readonly<Record<string, Flag>>
  words: readonly [number, number]
  /** The last argument is followed by a program, whose flags are not parsed here. */
  runs?: true
  run: Run
}

/** @returns the exit code; undefined means 0 */
export type Run = (context: Context, words: readonly string[]) => Promise<number | undefined> | number | undefined

export class CliError extends Error {
  readonly exit_code: number
  readonly next: string | null
  constructor(message: string, { exit_code = 1, next = null }: { exit_code?: number; next?: string | null } = {}) {
    super(message)
    this.exit_code = exit_code
    this.next = next
  }
}

export function namedValue(flag: string, pair: string): [name: string, value: string] {
  const at = pair.indexOf('=')
  if (at < 1) throw usageError(`--${flag} takes NAME=VALUE, not ${pair}`)
  return [pair.slice(0, at), pair.slice(at + 1)]
}

export function usageError(message: string, next = 'berth help'): CliError {
  return new CliError(message, { exit_code: 2, next })
}
