import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'

/**
 * Readings of one cell are added one after the other, also those of two processes. A lock of rows is not enough: two statements that
 * overlap and both find no earlier reading would both count from the beginning.
 */
export async function oneMeterAtATime<T>(
  db: Db,
  table: 'workspaces' | 'volumes',
  ids: readonly string[],
  add: (tx: Db) => Promise<T>,
): Promise<T> {
  const locked = async (tx: Db) => {
    await sql`
      select pg_advisory_xact_lock(hashtextextended('metering ' || cell, 0))
      from (select distinct coalesce(cell_id::text, '') as cell from ${sql.table(table)} where id = any(${ids}::uuid[]) order by 1) cells`.execute(
      tx,
    )
    // A statement of its own: it sees what the one before it in the lock has committed.
    return add(tx)
  }
  return db.isTransaction ? locked(db) : db.transaction().execute(locked)
}
