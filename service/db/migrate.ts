import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { Kysely, type Migration, Migrator, PostgresDialect, sql } from 'kysely'
import pg from 'pg'

const MIGRATIONS = fileURLToPath(new URL('./migrations/', import.meta.url))
const NAME = /^\d{4}_[a-z0-9_]+\.sql$/

/**
 * Brings the database to this version's schema. Any number of processes may do so at once: the migrator holds an advisory lock,
 * and all that is missing goes in as one transaction, or nothing does.
 * @param url of a login that may create tables and roles.
 * @returns the names of the migrations that this call applied.
 */
export async function migrate(url: string): Promise<string[]> {
  // Without a statement timeout: waiting for the lock is waiting for another process's whole migration.
  const pool = new pg.Pool({ connectionString: url, application_name: 'berth-migrate', max: 2, connectionTimeoutMillis: 5000 })
  pool.on('error', () => undefined) // of an idle connection: the next query meets it and reports
  const db = new Kysely<Record<string, never>>({ dialect: new PostgresDialect({ pool }) })
  try {
    const { error, results } = await new Migrator({ db, provider: { getMigrations: readMigrations } }).migrateToLatest()
    if (error !== undefined) throw new Error(failedMigration(results), { cause: error })
    return (results ?? []).map((result) => result.migrationName)
  } finally {
    await db.destroy()
  }
}

function failedMigration(results: { migrationName: string; status: string }[] | undefined): string {
  const failed = results?.find((result) => result.status === 'Error')
  return failed === undefined ? 'The database could not be migrated' : `Migration ${failed.migrationName} failed`
}

async function readMigrations(): Promise<Record<string, Migration>> {
  const names = (await readdir(MIGRATIONS)).sort()
  const strange = names.find((name) => !NAME.test(name))
  if (strange !== undefined) throw new Error(`${strange} is not the name of a migration: NNNN_words.sql`)
  return Object.fromEntries(
    await Promise.all(names.map(async (name) => [name.slice(0, -'.sql'.length), await readMigration(name)] as const)),
  )
}

async function readMigration(name: string): Promise<Migration> {
  const text = await readFile(`${MIGRATIONS}${name}`, 'utf8')
  return {
    async up(db) {
      await sql.raw(text).execute(db)
    },
  }
}
