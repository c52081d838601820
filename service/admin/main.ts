// What `npm run admin` runs: one noun, one verb, then its options.
import { type Db, openDatabase } from '../db/database.ts'
import { type Clock, systemClock } from '../lib/clock.ts'
import { createIds, type Ids } from '../lib/ids.ts'
import { AdminError, type Command, type Output, UsageError } from './command.ts'
import { doctor } from './doctor.ts'
import type { DoctorPlaces } from './doctor-facts.ts'
import { KEY_COMMANDS } from './keys.ts'
import { ORGANIZATION_COMMANDS } from './organizations.ts'
import { PERSON_COMMANDS } from './people.ts'
import { PLAN_COMMANDS } from './plans.ts'
import { STANDING_COMMANDS } from './standing.ts'
import { TEMPLATE_COMMANDS } from './templates.ts'
import { WORKSPACE_COMMANDS } from './workspaces.ts'

const COMMANDS: Record<string, Command> = {
  ...ORGANIZATION_COMMANDS,
  ...KEY_COMMANDS,
  ...PLAN_COMMANDS,
  ...TEMPLATE_COMMANDS,
  ...PERSON_COMMANDS,
  ...WORKSPACE_COMMANDS,
  ...STANDING_COMMANDS,
}

const output: Output = {
  line: (text) => void process.stdout.write(`${text}\n`),
  note: (text) => void process.stderr.write(`${text}\n`),
}

process.exitCode = await main(process.argv.slice(2)).catch(explain)

async function main(argv: string[]): Promise<number> {
  if (argv[0] === 'doctor') return examine(argv.slice(1))
  const found = find(argv)
  if (found === undefined) {
    output.note(usage())
    return argv.length === 0 || argv[0] === 'help' ? 0 : 2
  }
  const { database_url } = JSON.parse(process.env['BERTH_ADMIN'] ?? '{}') as { database_url?: string }
  if (database_url === undefined) throw new UsageError('Run this by `npm run admin`')
  const db = openDatabase({ url: database_url, role: null, connections_max: 1, application_name: 'berth-admin' })
  try {
    await run(found.command, found.rest, db, { clock: systemClock, ids: createIds(systemClock) })
  } finally {
    await db.destroy()
  }
  return 0
}

/** Apart from the others: it has something to say when the database has not. */
async function examine(argv: string[]): Promise<number> {
  const { doctor: places } = JSON.parse(process.env['BERTH_ADMIN'] ?? '{}') as { doctor?: DoctorPlaces }
  if (places === undefined) throw new UsageError('Run this by `npm run admin`')
  return doctor(argv, places, output)
}

function run(command: Command, argv: string[], db: Db, at: { clock: Clock; ids: Ids }): Promise<void> {
  return command.run(argv, { db, output, ...at })
}

/** The longest name that fits: `organization plan` and `organization create` are two words, no command is one. */
function find(argv: string[]): { command: Command; rest: string[] } | undefined {
  const command = COMMANDS[argv.slice(0, 2).join(' ')]
  return command === undefined ? undefined : { command, rest: argv.slice(2) }
}

function usage(): string {
  const lines = Object.entries(COMMANDS).map(([name, { synopsis }]) => `  npm run admin -- ${name} ${synopsis}`.trimEnd())
  return ['Commands:', ...lines, '  npm run admin -- config check [--json]', '  npm run admin -- doctor [--json]'].join('\n')
}

function explain(error: unknown): number {
  if (error instanceof UsageError || isParseError(error)) {
    output.note(`${error.message}\n\n${usage()}`)
    return 2
  }
  if (error instanceof AdminError) {
    output.note(error.message)
    return 1
  }
  if (isUnreachable(error)) {
    output.note('The database does not answer. The embedded one runs while Berth does: start it with `npm start`.')
    return 1
  }
  if (isUnprepared(error)) {
    output.note('The database is empty: start Berth on it once with `npm start`.')
    return 1
  }
  output.note(error instanceof Error ? (error.stack ?? error.message) : String(error))
  return 1
}

/** PostgreSQL: undefined_table. */
function isUnprepared(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '42P01'
}

function isParseError(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS')
}

function isUnreachable(error: unknown): boolean {
  return error instanceof Error && 'code' in error && ['ENOENT', 'ECONNREFUSED', 'ETIMEDOUT'].includes(String(error.code))
}
