import { type Db, openDatabase } from '../db/database.ts'
import { systemClock } from '../lib/clock.ts'
import { createIds } from '../lib/ids.ts'
import { mutate } from '../core/changes/mutate.ts'
import { AUDIT_COMMANDS } from './audit.ts'
import { AdminError, type Command, type Context, type Output, UsageError } from './command.ts'
import { BILLING_COMMANDS } from './billing.ts'
import { doctor } from './doctor.ts'
import type { DoctorPaths } from './doctor-facts.ts'
import { FEEDBACK_COMMANDS } from './feedback.ts'
import { firewall } from './firewall.ts'
import { GRANT_COMMANDS } from './grants.ts'
import { awaitRevocation } from './held.ts'
import { KEY_RING_COMMANDS } from './key-ring.ts'
import { KEY_COMMANDS } from './keys.ts'
import { byOperator } from './operator.ts'
import { ORGANIZATION_COMMANDS } from './organizations.ts'
import { adoptPool } from './pool.ts'
import { makePortsAuthority } from './ports-authority.ts'
import { PERSON_COMMANDS } from './people.ts'
import { PLAN_COMMANDS } from './plans.ts'
import { SEALING_KEY_COMMANDS } from './sealing-keys.ts'
import { STANDING_COMMANDS } from './standing.ts'
import { TEMPLATE_FILE_COMMANDS } from './template-file-commands.ts'
import { TEMPLATE_COMMANDS } from './templates.ts'
import { USAGE_COMMANDS } from './usage.ts'
import { WORKSPACE_COMMANDS } from './workspaces.ts'

const COMMANDS: Record<string, Command> = {
  ...ORGANIZATION_COMMANDS,
  ...KEY_COMMANDS,
  ...KEY_RING_COMMANDS,
  ...SEALING_KEY_COMMANDS,
  ...PLAN_COMMANDS,
  ...GRANT_COMMANDS,
  ...BILLING_COMMANDS,
  ...USAGE_COMMANDS,
  ...TEMPLATE_COMMANDS,
  ...TEMPLATE_FILE_COMMANDS,
  ...PERSON_COMMANDS,
  ...WORKSPACE_COMMANDS,
  ...AUDIT_COMMANDS,
  ...FEEDBACK_COMMANDS,
  ...STANDING_COMMANDS,
}

const output: Output = {
  line: (text) => void process.stdout.write(`${text}\n`),
  note: (text) => void process.stderr.write(`${text}\n`),
}

// EPIPE: the reader of the pipe has closed it, as `| head` does. This is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))
process.exitCode = await main(process.argv.slice(2)).catch(explain)

async function main(argv: string[]): Promise<number> {
  if (argv[0] === 'doctor') return doctor(argv.slice(1), places(), output)
  if (argv[0] === 'pool' && argv[1] === 'adopt') return adoptPool(argv.slice(2), places(), output)
  if (argv[0] === 'ports' && argv[1] === 'ca') return makePortsAuthority(argv.slice(2), portsUrl(), output, systemClock.now())
  if (argv.length === 1 && argv[0] === 'firewall') return firewall(places(), output)
  const found = find(argv)
  if (found === undefined) {
    output.note(usage())
    return argv.length === 0 || argv[0] === 'help' ? 0 : 2
  }
  const { database_url, secret_keys_dir, secret_keys_command, base_url, layers_dir } = JSON.parse(process.env['BERTH_ADMIN'] ?? '{}') as {
    database_url?: string
    secret_keys_dir?: string
    secret_keys_command?: string
    base_url?: string
    layers_dir?: string
  }
  if (database_url === undefined) throw new UsageError('Run this by `npm run admin`')
  const db = openDatabase({ url: database_url, role: null, connections_max: 1, application_name: 'berth-admin' })
  try {
    const places = {
      ...(secret_keys_dir === undefined ? {} : { secret_keys_dir }),
      ...(secret_keys_command === undefined ? {} : { secret_keys_command }),
      ...(base_url === undefined ? {} : { base_url }),
      ...(layers_dir === undefined ? {} : { layers_dir }),
    }
    const at = { clock: systemClock, ids: createIds(systemClock), ...places }
    await run(found.command, found.rest, db, at)
    if (found.command.revokes === true) await awaitRevocation(db, database_url, systemClock)
  } finally {
    await db.destroy()
  }
  return 0
}

function places(): DoctorPaths {
  const { doctor: given } = JSON.parse(process.env['BERTH_ADMIN'] ?? '{}') as { doctor?: DoctorPaths }
  if (given === undefined) throw new UsageError('Run this by `npm run admin`')
  return given
}

function portsUrl(): string {
  const { ports_url } = JSON.parse(process.env['BERTH_ADMIN'] ?? '{}') as { ports_url?: string }
  if (ports_url === undefined) throw new UsageError('Run this by `npm run admin`')
  return ports_url
}

function run(
  command: Command,
  argv: string[],
  db: Db,
  at: Pick<Context, 'clock' | 'ids' | 'secret_keys_dir' | 'secret_keys_command' | 'base_url' | 'layers_dir'>,
): Promise<void> {
  const change: Context['change'] = (action, work, subject) => mutate(db, byOperator(at), action, work, subject)
  return command.run(argv, { db, output, change, ...at })
}

function find(argv: string[]): { command: Command; rest: string[] } | undefined {
  const command = COMMANDS[argv.slice(0, 2).join(' ')]
  return command === undefined ? undefined : { command, rest: argv.slice(2) }
}

function usage(): string {
  const lines = Object.entries(COMMANDS).map(([name, { synopsis }]) => `  npm run admin -- ${name} ${synopsis}`.trimEnd())
  const others = [
    'config check [--json]',
    'doctor [--json]',
    'firewall',
    'pool adopt INSTALLATION',
    'ports ca FOLDER',
    'service install | uninstall | status',
  ]
  return ['Commands:', ...lines, ...others.map((each) => `  npm run admin -- ${each}`)].join('\n')
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

/** undefined_table: setup has not created the tables. */
function isUnprepared(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '42P01'
}

function isParseError(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS')
}

function isUnreachable(error: unknown): boolean {
  return error instanceof Error && 'code' in error && ['ENOENT', 'ECONNREFUSED', 'ETIMEDOUT'].includes(String(error.code))
}
