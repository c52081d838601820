import { type RawBuilder, sql } from 'kysely'
import type { Db } from './database.ts'
import type { Database } from './schema.ts'

/** Rows of one statement: it holds its locks for milliseconds, and is over long before a statement's time. */
const ROWS = 1000
/** Statements of one call: what is left then waits for the next. */
const TURNS_MAX = 1000

/**
 * Deletes rows until a statement finds fewer than it may take.
 * @param by `id` where the process may not read every column: PostgreSQL refuses it `ctid` then.
 * @returns how many went.
 */
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
