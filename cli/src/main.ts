#!/usr/bin/env node
import { parseArgs } from 'node:util'
import type { Berth, BerthError, Workspace } from '../../sdk/typescript/src/main.ts'
import { CliError, type CliCommand, type Context, type Flag, usageError } from './command.ts'
import { COMMANDS } from './commands.ts'
import { completionOf } from './completion.ts'
import { fields, escapeLines, table } from './print.ts'
import { credentials, readProfiles, urlOf } from './profile.ts'
import { CHECK, checkInBackground, checkVersion } from './version-check.ts'

declare const BERTH_CLI_VERSION: string | undefined
const VERSION = typeof BERTH_CLI_VERSION === 'string' ? BERTH_CLI_VERSION : '0.1.0'
const GLOBAL = {
  json: { type: 'boolean', says: 'print data as JSON' },
  profile: { type: 'string', value: 'NAME', says: 'use the address and the key of this profile' },
  url: { type: 'string', value: 'URL', says: 'address of the service' },
  project: { type: 'string', value: 'ID', says: "project of a person's session" },
  organization: { type: 'string', value: 'ID', says: "organization of a person's session" },
  help: { type: 'boolean', short: 'h', says: 'print this' },
  version: { type: 'boolean', says: 'print the version of the command line' },
} as const satisfies Record<string, Flag>
/** Notices about a wait: the CLI adds that Ctrl-C ends it. */
const IS_WAIT = /^(?:There is no answer|Waiting for )/
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-/

// npm runs scripts in the root of the clone, but paths are relative to the caller's directory.
const { npm_lifecycle_event, INIT_CWD } = process.env
if (npm_lifecycle_event === 'berth' && INIT_CWD) process.chdir(INIT_CWD)
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))
// Exits explicitly, because an open keep-alive connection would keep the process running.
void main(process.argv.slice(2)).then((code) => process.exit(code))

async function main(argv: readonly string[]): Promise<number> {
  const given = splitArguments(argv)
  try {
    return await run(given)
  } catch (error) {
    return printError(error, given.words.includes('--json'))
  }
}

interface Invocation {
  command: CliCommand | undefined
  words: readonly string[]
  rest: readonly string[]
  dashes: boolean
}

function splitArguments(argv: readonly string[]): Invocation {
  const command = commandOf(argv)
  const at = argv.indexOf('--')
  const [words, rest] = at < 0 ? [argv, []] : [argv.slice(0, at), argv.slice(at + 1)]
  if (command?.runs !== true) return { command, words, rest, dashes: at >= 0 }
  const { length } = command.name.split(' ')
  const begins = programIndex(command, words.slice(length))
  if (begins === undefined) return { command, words, rest, dashes: at >= 0 }
  return { command, words: words.slice(0, length + begins), rest: argv.slice(length + begins), dashes: false }
}

/** @returns undefined if the program begins only after `--`. */
function programIndex({ flags, words: [, most] }: CliCommand, args: readonly string[]): number | undefined {
  const options = { ...GLOBAL, ...flags }
  const { tokens } = parseArgs({ args: [...args], options, allowPositionals: true, strict: false, tokens: true })
  return tokens.filter(({ kind }) => kind === 'positional')[most]?.index
}

async function run({ command, words, rest, dashes }: Invocation): Promise<number> {
  if (words[0] === 'complete') return print(completionOf(COMMANDS, words.slice(1)).join('\n'))
  if (words[0] === CHECK) return checkVersion(words[1] ?? '').then(() => 0)
  if (command === undefined) {
    if (words.includes('--version')) return print(VERSION)
    if (words.length > 0 && words[0] !== 'help' && !words[0]?.startsWith('-')) throw usageError(`There is no command ${words[0] ?? ''}`)
    return print(help(words.slice(1)))
  }
  const { values, positionals } = parsedFlags(command, words.slice(command.name.split(' ').length))
  if (values['version'] === true) return print(VERSION)
  if (values['help'] === true) return print(helpOf(command))
  const [least, most] = command.words
  if (positionals.length < least || positionals.length > most)
    throw usageError(`berth ${command.name} takes ${command.takes ?? 'nothing'}`, `berth ${command.name} --help`)
  // Loaded only for a command, so that help and completion are fast.
  const [{ Berth }, { httpFetch }] = [await import('../../sdk/typescript/src/main.ts'), await import('./http-fetch.ts')]
  const onNotice = (text: string) => {
    const way_out = IS_WAIT.test(text) ? ' (Ctrl-C ends)' : ''
    process.stderr.write(`berth: ${escapeLines(text)}${way_out}\n`)
  }
  const context = contextOf(values, { rest, dashes }, (known) => new Berth({ ...known, fetch: httpFetch, onNotice }))
  if (!context.json) await checkInBackground(() => urlOf(readProfiles()[context.profile], values['url']), VERSION, context.say)
  return (await command.run(context, positionals)) ?? 0
}

function commandOf(words: readonly string[]): CliCommand | undefined {
  return COMMANDS.filter(({ name }) => name.split(' ').every((word, at) => words[at] === word)).toSorted(
    (a, b) => b.name.length - a.name.length,
  )[0]
}

function parsedFlags(command: CliCommand, words: readonly string[]) {
  try {
    return parseArgs({ args: [...words], options: { ...GLOBAL, ...command.flags }, allowPositionals: true })
  } catch (error) {
    throw usageError((error as Error).message.split('. To specify')[0] ?? '', `berth ${command.name} --help`)
  }
}

function contextOf(
  flags: Record<string, unknown>,
  run: Pick<Context, 'rest' | 'dashes'>,
  connect: (known: ReturnType<typeof credentials>) => Berth,
): Context {
  let made: Berth | undefined
  const json = flags['json'] === true
  const profile = typeof flags['profile'] === 'string' ? flags['profile'] : (process.env['BERTH_PROFILE'] ?? 'default')
  const berth = () => (made ??= connect(credentials(profile, flags as Partial<Record<string, string>>)))
  return {
    berth,
    async workspace(name): Promise<Workspace> {
      const ws = UUID.test(name) ? await berth().workspace(name) : await berth().find(name)
      if (ws === null) throw new CliError(`There is no workspace ${name}`, { next: `berth open ${name}` })
      return ws
    },
    flags: flags as Context['flags'],
    ...run,
    json,
    profile,
    print: (value, columns) => void print(shown(value, columns, json)),
    say: (text) => void process.stderr.write(`${escapeLines(text)}\n`),
  }
}

function shown(value: unknown, columns: readonly string[] | undefined, json: boolean): string {
  if (json) return JSON.stringify(value, null, 2)
  if (typeof value === 'string') return value
  if (Array.isArray(value)) return table(value as object[], columns ?? Object.keys((value[0] as object | undefined) ?? {}))
  return columns ? table([value as object], columns) : fields(value as object)
}

function print(text: string): number {
  process.stdout.write(text === '' ? '' : `${text}\n`)
  return 0
}

function help(words: readonly string[]): string {
  if (words.includes('--json'))
    return JSON.stringify(
      COMMANDS.map(({ name, takes, does, flags = {} }) => ({ name, takes, does, flags })),
      null,
      2,
    )
  const chosen = COMMANDS.filter(({ name }) => words.every((word, at) => name.split(' ')[at] === word))
  const one = chosen.length === 1 ? chosen[0] : undefined
  if (one) return helpOf(one)
  const lines = chosen.map(({ name, takes = '', does }) => [`  berth ${name} ${takes}`.trimEnd(), does])
  const width = Math.max(...lines.map(([left = '']) => left.length))
  return [
    'berth: isolated, durable workspaces',
    '',
    ...lines.map(([left = '', right = '']) => `${left.padEnd(width)}  ${right}`),
    '',
    'Everywhere:',
    ...linesOf(GLOBAL),
    'BERTH_URL, BERTH_API_KEY, BERTH_PROJECT and BERTH_ORGANIZATION win over a profile.',
  ].join('\n')
}

function helpOf({ name, takes = '', does, flags = {} }: CliCommand): string {
  const own = linesOf(flags)
  const section = own.length > 0 ? ['', ...own] : []
  return [`berth ${name} ${takes}`.trimEnd(), `  ${does}`, ...section, '', 'Everywhere:', ...linesOf(GLOBAL)].join('\n')
}

function linesOf(flags: Readonly<Record<string, Flag>>): string[] {
  const rows = Object.entries(flags).map(([flag, { value, says }]) => [`  --${flag}${value === undefined ? '' : ` ${value}`}`, says])
  const width = Math.max(...rows.map(([left = '']) => left.length))
  return rows.map(([left = '', says = '']) => `${left.padEnd(width)}  ${says}`)
}

function printError(error: unknown, json: boolean): number {
  // Escaped, because other people may have chosen names in the message.
  const say = (text: string) => void process.stderr.write(`berth: ${escapeLines(text)}\n`)
  if (error instanceof CliError) {
    say(error.message)
    if (error.next) process.stderr.write(`Try: ${escapeLines(error.next)}\n`)
    return error.exit_code
  }
  if (isUnchosen(error)) {
    const { choice_of, named } = error
    say(`Say which ${choice_of} is meant: give --${choice_of} ID, or set BERTH_${choice_of.toUpperCase()}. There are ${named.join(', ')}`)
    return 2
  }
  if (!isBerthError(error)) {
    say(error instanceof Error ? error.message : String(error))
    return 1
  }
  if (json) {
    const { code, reason, message, retryable, requestId: request_id, operationId: operation_id, details } = error
    process.stderr.write(`${JSON.stringify({ error: { code, reason, message, retryable, request_id, operation_id, details } })}\n`)
    return 1
  }
  const reason = error.reason === null ? '' : ` (${error.reason})`
  say(`${error.message} [${error.code}${reason}]`)
  if (error.requestId) process.stderr.write(`Request ${error.requestId}\n`)
  const next = nextAfter(error)
  if (next) process.stderr.write(`Try: ${next}\n`)
  return 1
}

function isUnchosen(error: unknown): error is Error & { choice_of: string; named: readonly string[] } {
  return error instanceof Error && 'choice_of' in error && 'named' in error
}

/** Checks the shape, because the SDK may not be loaded. */
function isBerthError(error: unknown): error is BerthError {
  return error instanceof Error && 'code' in error && 'requestId' in error
}

function nextAfter({ code, operationId }: BerthError): string | null {
  if (code === 'unauthenticated') return 'berth login'
  if (code === 'step_up_required') return 'berth step-up, which asks for the password; for 10 minutes nothing else does'
  if (code === 'connection_failed') return 'berth me --url http://127.0.0.1:8080, and see that the service runs'
  if (operationId !== null) return `berth api GET /v1/operations/${operationId}`
  return code === 'allowance_exhausted' || code === 'entitlement_required' ? 'berth usage' : null
}
