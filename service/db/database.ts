import { Kysely, PostgresDialect } from 'kysely'
import type { DatabaseOptions } from './options.ts'
import type { Database } from './schema.ts'
import { openWatchedPool } from './watched-pool.ts'

export type Db = Kysely<Database>

/** A pool of connections whose statements fail soon when the server has stopped answering. */
export function openDatabase(options: DatabaseOptions): Db {
  return new Kysely<Database>({ dialect: new PostgresDialect({ pool: openWatchedPool(options) }) })
}
