import pg from 'pg'
import { grantChanges } from './grant-rules.ts'
import { type MigrationFile, numberOf, readMigrations, statementsOf } from './migration-files.ts'
import { readRights } from './rights.ts'

// Table and lock id must not change: releases up to 0.1.0 use them, so they find unknown migrations and refuse to start on a newer schema.
const MIGRATION_LOCK_ID = '3853314791062309107'
const CREATE_MIGRATIONS_TABLE = `
  create table if not exists kysely_migration (name varchar(255) primary key, "timestamp" varchar(255) not null);
  alter table kysely_migration add column if not exists sha256 text, add column if not exists needs integer;`

export interface MigrateOptions {
  files?: MigrationFile[]
  /** Limits the wait for a lock, because later statements queue behind a statement that waits. */
  lock_wait_ms?: number
  tries?: number
}

/**
 * Applies all missing migrations in one transaction, which is split only by a migration outside a transaction. See
 * docs/operating/migrations.md.
 * @param url of a login that may create tables and roles
 * @returns the migrations that this call applied
 */
export async function migrate(url: string, options: MigrateOptions = {}): Promise<string[]> {
  const files = options.files ?? (await readMigrations())
  const client = new pg.Client({ connectionString: url, application_name: 'berth-migrate', connectionTimeoutMillis: 5000 })
  client.on('error', () => undefined) // ignored: the running statement reports the error
  await client.connect()
  try {
    await client.query(`set lock_timeout = ${options.lock_wait_ms ?? LOCK_WAIT_MS}`)
    await acquireMigrationLock(client)
    await client.query(CREATE_MIGRATIONS_TABLE)
    const missing = missingOf(files, await readApplied(client, files))
    for (const group of groupsOf(missing)) await retrying(group, options, () => applyGroup(client, group))
    await inTransaction(client, () => applyRights(client))
    return missing.map(({ name }) => name)
  } finally {
    await client.end() // releases the advisory lock
  }
}

const TURN_WAIT_MS = 15 * 60_000

/**
 * Polls for the lock. A session that waits inside the database holds a snapshot, and a concurrent index build would wait for that session.
 */
async function acquireMigrationLock(client: pg.Client): Promise<void> {
  const deadline_ms = performance.now() + TURN_WAIT_MS
  for (;;) {
    const { rows } = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [MIGRATION_LOCK_ID])
    if (rows[0]?.taken) return
    if (performance.now() > deadline_ms) throw new Error('Another process has been migrating the database for a quarter of an hour')
    await pause(50)
  }
}

interface Applied {
  name: string
  sha256: string | null
  needs: number | null
}

async function readApplied(client: pg.Client, files: MigrationFile[]): Promise<Applied[]> {
  // Releases without hashes applied the same files, so their hashes are known.
  for (const { name, sha256 } of files) {
    await client.query('update kysely_migration set sha256 = $2 where name = $1 and sha256 is null', [name, sha256])
  }
  return (await client.query<Applied>('select name, sha256, needs from kysely_migration order by name')).rows
}

/** @returns the migrations to apply. @throws if the applied migrations do not fit this version. */
export function missingOf(files: MigrationFile[], applied: Applied[]): MigrationFile[] {
  const known = new Map(files.map((file) => [file.name, file]))
  const newest = Math.max(0, ...files.map(({ number }) => number))
  for (const { name, sha256, needs } of applied) {
    const own = known.get(name)
    if (own !== undefined && own.sha256 !== sha256) {
      throw new Error(`The database has a migration ${name} of another content: it was made by a version that was never released`)
    }
    if (own === undefined && numberOf(name) <= newest) {
      throw new Error(
        `The database has a migration ${name} that this version does not have: it was made by a version that was never released`,
      )
    }
    if (needs !== null && needs > newest) throw new Error(newerDatabase(name))
  }
  const done = new Set(applied.map(({ name }) => name))
  const missing = files.filter(({ name }) => !done.has(name))
  const last = Math.max(0, ...applied.map(({ name }) => numberOf(name)))
  const late = missing.find(({ number }) => number < last)
  if (late !== undefined) throw new Error(`Migration ${late.name} is missing in a database that has later ones: give it a higher number`)
  return missing
}

export function newerDatabase(name: string): string {
  return `The database has been migrated by a newer version of Berth (${name}): start that version, or put back the backup of before`
}

function groupsOf(files: MigrationFile[]): MigrationFile[][] {
  const groups: MigrationFile[][] = []
  for (const file of files) {
    const last = groups.at(-1)
    if (last === undefined || file.outside || last[0]?.outside) groups.push([file])
    else last.push(file)
  }
  return groups
}

async function applyGroup(client: pg.Client, group: MigrationFile[]): Promise<void> {
  const [first] = group
  if (first?.outside) return applyOutside(client, first)
  await inTransaction(client, async () => {
    for (const file of group) {
      await applying(file, () => client.query(file.text))
      await remember(client, file)
    }
  })
}

const OUTSIDE_LOCK_WAIT_MS = 60_000 // may be longer: ordinary statements do not queue behind this lock

async function applyOutside(client: pg.Client, file: MigrationFile): Promise<void> {
  const { rows } = await client.query<{ lock_timeout: string }>('show lock_timeout')
  await client.query(`set lock_timeout = ${OUTSIDE_LOCK_WAIT_MS}`)
  for (const statement of statementsOf(file)) {
    await dropHalfMade(client, statement)
    await applying(file, () => client.query(statement))
  }
  await client.query("select set_config('lock_timeout', $1, false)", [rows[0]?.lock_timeout])
  await remember(client, file)
}

/** Drops the invalid index that an interrupted build leaves, because `if not exists` would not replace it. */
async function dropHalfMade(client: pg.Client, statement: string): Promise<void> {
  const [, name] = /index concurrently if not exists ([a-z0-9_]+)/.exec(statement) ?? []
  if (name === undefined) return
  const text = 'select from pg_index where indexrelid = to_regclass($1) and not indisvalid'
  if ((await client.query(text, [name])).rowCount === 1) await client.query(`drop index concurrently ${pg.escapeIdentifier(name)}`)
}

async function applying(file: MigrationFile, work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (cause) {
    throw isLockTimeout(cause) ? cause : new Error(`Migration ${file.name} failed`, { cause })
  }
}

async function remember(client: pg.Client, { name, sha256, needs }: MigrationFile): Promise<void> {
  const text = 'insert into kysely_migration (name, "timestamp", sha256, needs) values ($1, clock_timestamp()::text, $2, $3)'
  await client.query(text, [name, sha256, needs])
}

async function applyRights(client: pg.Client): Promise<void> {
  for (const statement of grantChanges(await readRights((text) => client.query(text)))) await client.query(statement)
}

const LOCK_WAIT_MS = 3000
const TRIES = 20
const BETWEEN_TRIES_MS = 1000

async function inTransaction(client: pg.Client, work: () => Promise<void>): Promise<void> {
  await client.query('begin')
  try {
    await work()
    await client.query('commit')
  } catch (error) {
    await client.query('rollback').catch(() => undefined) // ignored: the connection is lost, and its transaction with it
    throw error
  }
}

/** Retries with a short timeout, because a statement that waits for a lock blocks all later ones. */
async function retrying(group: MigrationFile[], { tries = TRIES }: MigrateOptions, work: () => Promise<void>): Promise<void> {
  for (let tried = 1; ; tried++) {
    try {
      return await work()
    } catch (error) {
      if (!isLockTimeout(error)) throw error
      if (tried >= tries) throw new Error(lockedOut(group, tries), { cause: error })
      await pause(BETWEEN_TRIES_MS)
    }
  }
}

function lockedOut(group: MigrationFile[], tries: number): string {
  const names = group.map(({ name }) => name).join(', ')
  return `${names}: a lock was not to be had in ${tries} tries. Something holds it: end long transactions (pg_stat_activity), and start again`
}

function isLockTimeout(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '55P03'
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
