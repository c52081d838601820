import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'

/** What one statement removes at most: it holds its locks for milliseconds, and whoever waits behind it does not notice. */
export const BATCH = { tombstones: 200, checkpoints: 200, entries: 5000 } as const

/**
 * Deleted workspaces whose time as readable tombstones is over, with their operations. Their keys stay used: workspace_keys
 * outlives them.
 * @returns how many went.
 */
export async function dropTombstones(db: Db, deleted_before: Date): Promise<number> {
  return db.transaction().execute(async (tx) => {
    const rows = await tx
      .selectFrom('workspaces')
      .select(['id', 'ended_reason'])
      .where('observed_state', '=', 'deleted')
      .where('deleted_at', '<', deleted_before)
      .limit(BATCH.tombstones)
      .forUpdate()
      .skipLocked()
      .execute()
    const ids = rows.map(({ id }) => id)
    if (ids.length === 0) return 0
    // A fork that captured nothing: its key names nothing that ever was.
    const never_used = rows.filter(({ ended_reason }) => ended_reason === 'fork_failed').map(({ id }) => id)
    await tx.deleteFrom('agent_sessions').where('workspace_id', 'in', ids).execute()
    await tx.deleteFrom('checkpoints').where('workspace_id', 'in', ids).execute()
    await tx.deleteFrom('workspace_holds').where('workspace_id', 'in', ids).execute()
    // A fork's operation is its target's; where only the source goes, input still names it.
    await tx.updateTable('operations').set({ source_workspace_id: null }).where('source_workspace_id', 'in', ids).execute()
    await tx.deleteFrom('operations').where('workspace_id', 'in', ids).execute()
    await tx.deleteFrom('workspaces').where('id', 'in', ids).execute()
    if (never_used.length > 0) await tx.deleteFrom('workspace_keys').where('workspace_id', 'in', never_used).execute()
    return ids.length
  })
}

/**
 * Checkpoints that were kept for a while only. One that a workspace would resume from stays, and one that an operation may be at
 * work on. Their files go with the next comparison of rows and host.
 */
export async function dropExpiredCheckpoints(db: Db, now: Date): Promise<number> {
  const { rows } = await sql`
    delete from checkpoints where id in (
      select c.id from checkpoints c join workspaces w on w.id = c.workspace_id
      where c.expires_at < ${now} and w.checkpoint_id is distinct from c.id
        and not exists (select from workspace_holds h where h.workspace_id = w.id)
      limit ${BATCH.checkpoints}
    ) returning id`.execute(db)
  return rows.length
}

/** Idempotency entries that no repeat may be answered from any more. @returns how many went. */
export async function dropIdempotencyEntries(db: Db, created_before: Date): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from idempotency_entries where (principal, route, key) in (
      select principal, route, key from idempotency_entries where created_at < ${created_before} order by created_at limit ${BATCH.entries}
    )`.execute(db)
  return Number(numAffectedRows ?? 0)
}
