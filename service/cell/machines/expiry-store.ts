import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'

const BATCH = 200

/**
 * Deleted workspaces whose time as readable tombstones is over, with their operations. Their keys stay used: workspace_keys
 * outlives them.
 * @returns how many went.
 */
export async function dropTombstones(db: Db, deleted_before: Date): Promise<number> {
  return db.transaction().execute(async (tx) => {
    const rows = await tx
      .selectFrom('workspaces')
      .select('id')
      .where('observed_state', '=', 'deleted')
      .where('deleted_at', '<', deleted_before)
      .limit(BATCH)
      .forUpdate()
      .skipLocked()
      .execute()
    const ids = rows.map(({ id }) => id)
    if (ids.length === 0) return 0
    await tx.deleteFrom('agent_sessions').where('workspace_id', 'in', ids).execute()
    await tx.deleteFrom('checkpoints').where('workspace_id', 'in', ids).execute()
    await tx.deleteFrom('workspace_holds').where('workspace_id', 'in', ids).execute()
    // A fork's operation is its target's; where only the source goes, input still names it.
    await tx.updateTable('operations').set({ source_workspace_id: null }).where('source_workspace_id', 'in', ids).execute()
    await tx.deleteFrom('operations').where('workspace_id', 'in', ids).execute()
    await tx.deleteFrom('workspaces').where('id', 'in', ids).execute()
    return ids.length
  })
}

/** Idempotency entries that no repeat may be answered from any more. */
export async function dropIdempotencyEntries(db: Db, created_before: Date): Promise<void> {
  await sql`delete from idempotency_entries where created_at < ${created_before}`.execute(db)
}
