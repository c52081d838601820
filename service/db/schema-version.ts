import pg from 'pg'
import { newerDatabase } from './migrate.ts'
import { numberOf, readLock } from './migration-files.ts'
import { connectionConfig, type DatabaseOptions } from './options.ts'

interface Applied {
  name: string
  needs: number | null
}

/** @throws an error with the remedy, if this process cannot run on the database's schema */
export async function checkSchema(options: DatabaseOptions): Promise<void> {
  const problem = schemaProblem(Object.keys((await readLock()).files), await readApplied(options))
  if (problem !== null) throw new Error(problem)
}

/**
 * A newer schema is accepted while none of its migrations needs a newer process, because other computers may still run the earlier version.
 * @param known names of this version's migrations
 * @returns null if there is no problem
 */
export function schemaProblem(known: string[], applied: Applied[]): string | null {
  const done = new Set(applied.map(({ name }) => name))
  const missing = known.filter((name) => !done.has(name))
  if (missing.length > 0) {
    return `The database lacks the migration ${missing[0]}: \`npm start\` of this version applies it. Nothing was changed`
  }
  const newest = Math.max(...known.map(numberOf))
  const beyond = applied.find(({ needs }) => needs !== null && needs > newest)
  return beyond === undefined ? null : newerDatabase(beyond.name)
}

async function readApplied(options: DatabaseOptions): Promise<Applied[]> {
  const client = new pg.Client(connectionConfig(options))
  client.on('error', () => undefined) // ignored: the query reports the error
  await client.connect()
  try {
    return (await client.query<Applied>('select name, needs from kysely_migration')).rows
  } catch (cause) {
    if (cause instanceof pg.DatabaseError && NEVER_MIGRATED.has(cause.code ?? '')) return []
    throw cause
  } finally {
    await client.end()
  }
}

/** SQLSTATEs for no table, no column, or no right to read it: no version with this check has migrated the database. */
const NEVER_MIGRATED = new Set(['42P01', '42703', '42501'])
