import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'

/**
 * Takes advisory locks, because row locks are not enough: two overlapping statements without an earlier reading would both count from zero.
 */
export async function withMeterLock<T>(
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
    // Called after the lock, because only a separate statement reads the commits made before the lock was granted.
    return add(tx)
  }
  return db.isTransaction ? locked(db) : db.transaction().execute(locked)
}
