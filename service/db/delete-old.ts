import { type RawBuilder, sql } from 'kysely'
import type { Db } from './database.ts'
import type { Database } from './schema.ts'

/** Few rows per statement: locks are short, and the statement timeout is not reached. */
const ROWS = 1000
const TURNS_MAX = 1000

/** @param by `id` if the process may not read every column, because PostgreSQL then refuses `ctid` */
export async function deleteOld(db: Db, table: keyof Database, which: RawBuilder<unknown>, by: 'ctid' | 'id' = 'ctid'): Promise<number> {
  const [from, row] = [sql.table(table), sql.ref(by)]
  let deleted = 0
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    const { numAffectedRows = 0n } = await sql`
      delete from ${from} where ${row} = any(array(select ${row} from ${from} where ${which} limit ${ROWS}))`.execute(db)
    deleted += Number(numAffectedRows)
    if (numAffectedRows < ROWS) break
  }
  return deleted
}
