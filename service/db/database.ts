import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import type { Database } from './schema.ts'

export type Db = Kysely<Database>

const INT8 = 20
// Every int8 of ours is a counter far below 2^53; the driver's text would spread string arithmetic.
pg.types.setTypeParser(INT8, (text) => Number.parseInt(text, 10))

export interface DatabaseOptions {
  url: string
  /** The role that this process acts under (migrations/0001: what each may touch); null keeps the login's own. */
  role: 'berth_api' | 'berth_cell' | null
  connections_max: number
  application_name: string
}

/** Options of one connection, shared by the pool and by listeners. */
export function connectionConfig(options: DatabaseOptions): pg.ClientConfig {
  return {
    connectionString: options.url,
    application_name: options.application_name,
    ...(options.role === null ? {} : { options: `-c role=${options.role}` }),
    connectionTimeoutMillis: 2000, // RELIABILITY 2.4: a database that is down is answered in two seconds, not waited for
    statement_timeout: 10_000,
    keepAlive: true,
  }
}

/** A pool of connections. Errors of idle connections are swallowed here: the next query meets them and reports. */
export function openDatabase(options: DatabaseOptions): Db {
  const pool = new pg.Pool({ ...connectionConfig(options), max: options.connections_max })
  pool.on('error', () => undefined)
  return new Kysely<Database>({ dialect: new PostgresDialect({ pool }) })
}
