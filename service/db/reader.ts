import { CompiledQuery, type Transaction } from 'kysely'
import type { Db } from './database.ts'
import { openKysely } from './last-statement.ts'
import type { DatabaseOptions } from './options.ts'
import type { Database } from './schema.ts'
import { openWatchedPool } from './watched-pool.ts'

export type Tx = Transaction<Database>

/** A name must always be used with the same text. */
export interface Reader {
  rows<Row>(name: string, text: string, values: unknown[]): Promise<Row[]>
}

export interface Store {
  db: Db
  reads: Reader
  close(): Promise<void>
}

export function openStore(options: DatabaseOptions): Store {
  const pool = openWatchedPool(options)
  const db = openKysely(pool)
  return {
    db,
    reads: {
      async rows<Row>(name: string, text: string, values: unknown[]): Promise<Row[]> {
        return (await pool.query({ name, text, values })).rows as Row[]
      },
    },
    close: () => db.destroy(), // ends the pool
  }
}

/** Runs queries of a transaction; they are not prepared. */
export function readerOf(db: Db): Reader {
  return {
    async rows<Row>(_name: string, text: string, values: unknown[]): Promise<Row[]> {
      return (await db.executeQuery<Row>(CompiledQuery.raw(text, values))).rows
    },
  }
}
