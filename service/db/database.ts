import type { Kysely } from 'kysely'
import { openKysely } from './last-statement.ts'
import type { DatabaseOptions } from './options.ts'
import type { Database } from './schema.ts'
import { openWatchedPool } from './watched-pool.ts'

export type Db = Kysely<Database>

export function openDatabase(options: DatabaseOptions): Db {
  return openKysely(openWatchedPool(options))
}
