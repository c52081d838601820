import { readdirSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import pg from 'pg'
import pino from 'pino'
import { readMigrations, statementsOf } from '../../service/db/migration-files.ts'
import { openApi } from '../../service/api/server.ts'
import { createIds } from '../../service/lib/ids.ts'
import { systemClock } from '../../service/lib/clock.ts'
import { freshDatabase, type TestDatabase } from '../support/postgres.ts'

export interface Repeat {
  as: string
  path: string
  body: object
  key: string
  status: number
  answer: unknown
}

export type Callers = Record<string, string>

export interface Seen {
  as: string
  path: string
  status: number
  body: unknown
}

export interface Fixture {
  schema: string
  /** Time at which the answers were given. */
  taken_at: string
  callers: Callers
  /** The secret in hexadecimal digits. */
  service_secret: string
  answers: Seen[]
  repeats: Repeat[]
}

const FOLDER = import.meta.dirname

export function releases(): string[] {
  return readdirSync(FOLDER, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
}

export async function readFixture(release: string): Promise<{ fixture: Fixture; rows: string }> {
  const [fixture, rows] = await Promise.all(['fixture.json', 'rows.sql'].map((name) => readFile(join(FOLDER, release, name), 'utf8')))
  if (fixture === undefined || rows === undefined) throw new Error(`${release} is not whole`)
  return { fixture: JSON.parse(fixture) as Fixture, rows }
}

/** Made from the migrations, which never change. */
export async function oldDatabase(schema: string, rows: string): Promise<TestDatabase> {
  const database = await freshDatabase()
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  try {
    await client.query('drop schema public cascade; create schema public; grant usage on schema public to public')
    await client.query('create table kysely_migration (name varchar(255) primary key, "timestamp" varchar(255) not null)')
    for (const file of await readMigrations()) {
      if (file.name > schema) break
      for (const statement of file.outside ? statementsOf(file) : [file.text]) await client.query(statement)
      await client.query('insert into kysely_migration values ($1, $2)', [file.name, '2026-01-01T00:00:00.000Z'])
    }
    await client.query('delete from installation')
    await client.query(`set session_replication_role = replica; ${rows}; reset session_replication_role`)
  } finally {
    await client.end()
  }
  return database
}

export async function dumpRows({ superuser }: TestDatabase): Promise<string> {
  return superuser
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute(async (tx) => {
      const tables = await sql<{ name: string; columns: string[] }>`
        select c.relname as name, array_agg(a.attname::text order by a.attnum) as columns
        from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace and c.relname not like 'kysely_%'
          and a.attnum > 0 and not a.attisdropped group by 1 order by 1`.execute(tx)
      const statements: string[] = []
      for (const { name, columns } of tables.rows) {
        const texts = columns.map((column) => `quote_nullable(${pg.escapeIdentifier(column)}::text)`).join(', ')
        const { rows } = await sql<{ line: string }>`
          select ${sql.raw(`concat_ws(', ', ${texts})`)} as line from ${sql.table(name)} as t order by t::text collate "C"`.execute(tx)
        if (rows.length === 0) throw new Error(`${name} has no row: let tests/upgrade/populate.ts make some`)
        statements.push(`insert into ${name} (${columns.join(', ')}) values\n${rows.map(({ line }) => `(${line})`).join(',\n')};`)
      }
      const { rows } = await sql<{ last: string }>`select last_value::text as last from fences`.execute(tx)
      return `${[...statements, `select setval('fences', ${rows[0]?.last});`].join('\n')}\n`
    })
}

export interface Served extends AsyncDisposable {
  ask(as: string, path: string): Promise<Seen>
  repeat(request: Repeat): Promise<{ status: number; body: unknown; replayed: string | null }>
}

/** As at the time at which its release left it. */
export async function serve(database: TestDatabase, { taken_at, callers, service_secret }: Omit<Fixture, 'answers'>): Promise<Served> {
  const keys_dir = await mkdtemp(join(tmpdir(), 'berth-upgrade-'))
  await writeFile(join(keys_dir, 'service-secret'), Buffer.from(service_secret, 'hex'), { mode: 0o600 })
  const clock = { ...systemClock, now: () => new Date(taken_at) }
  const api = await openApi({
    database: database.options('berth_api'),
    signing_keys_dir: keys_dir,
    base_url: 'http://api.test',
    ports_url: 'https://ports.test',
    clock,
    ids: createIds(clock),
    logger: pino({ level: 'silent' }),
    validate_answers: true,
    revocation_held_seconds: 0.02,
  })
  const base = await api.server.listen({ host: '127.0.0.1', port: 0 })
  const authorization = (as: string) => ({ authorization: `Bearer ${callers[as]}` })
  return {
    async ask(as, path) {
      const response = await fetch(`${base}${path}`, { headers: authorization(as) })
      return { as, path, status: response.status, body: await response.json() }
    },
    async repeat({ as, path, key, body }) {
      const headers = { ...authorization(as), 'content-type': 'application/json', 'idempotency-key': key }
      const response = await fetch(`${base}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
      return { status: response.status, body: await response.json(), replayed: response.headers.get('idempotent-replayed') }
    },
    async [Symbol.asyncDispose]() {
      await api.close()
      await rm(keys_dir, { recursive: true })
    },
  }
}

export async function readAll({ ask }: Served, callers: Callers): Promise<Seen[]> {
  const seen: Seen[] = []
  const read = async (as: string, path: string) => {
    const one = await ask(as, path)
    seen.push(one)
    const { data } = one.body as { data?: { id: string }[] }
    return data ?? []
  }
  for (const as of Object.keys(callers)) {
    await read(as, '/v1/me')
    for (const { id } of await read(as, '/v1/organizations')) {
      await read(as, `/v1/organizations/${id}`)
      for (const project of await read(as, `/v1/organizations/${id}/projects`)) await read(as, `/v1/projects/${project.id}`)
    }
    for (const { id } of await read(as, '/v1/workspaces?include_deleted=true&lifetime=any&purpose=any&limit=200')) {
      await read(as, `/v1/workspaces/${id}`)
      for (const list of ['checkpoints', 'agent-sessions']) await read(as, `/v1/workspaces/${id}/${list}`)
      for (const operation of await read(as, `/v1/workspaces/${id}/operations`)) await read(as, `/v1/operations/${operation.id}`)
    }
  }
  return seen
}
