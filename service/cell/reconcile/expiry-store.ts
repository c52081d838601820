import { sql } from 'kysely'
import { givesKeyBack } from '../../core/workspaces/keys.ts'
import type { Db } from '../../db/database.ts'
import type { Tx } from '../../db/reader.ts'

/** Few rows per statement, which holds its locks for milliseconds only. */
export const BATCH = { tombstones: 200, checkpoints: 200 } as const

/** Keys of removed workspaces stay reserved in workspace_keys, unless `givesKeyBack` releases them. */
export async function dropTombstones(db: Db, deleted_before: Date): Promise<number> {
  const ended = await tombstones(db, deleted_before).select('id').limit(BATCH.tombstones).execute()
  if (ended.length === 0) return 0
  return db.transaction().execute(async (tx) => {
    await lockOperations(tx, namesOf(ended))
    const rows = await tombstones(tx, deleted_before)
      .select(['id', 'ended_reason'])
      .where('id', 'in', namesOf(ended))
      .forUpdate()
      .skipLocked()
      .execute()
    const ids = namesOf(rows)
    if (ids.length === 0) return 0
    const freed = rows.filter(({ ended_reason }) => givesKeyBack(ended_reason)).map(({ id }) => id)
    await tx.deleteFrom('agent_sessions').where('workspace_id', 'in', ids).execute()
    await tx.deleteFrom('checkpoints').where('workspace_id', 'in', ids).execute()
    await tx.deleteFrom('workspace_holds').where('workspace_id', 'in', ids).execute()
    // A fork's operation belongs to its target and is kept. Its input still names the source.
    await tx.updateTable('operations').set({ source_workspace_id: null }).where('source_workspace_id', 'in', ids).execute()
    await tx.deleteFrom('operations').where('workspace_id', 'in', ids).execute()
    await tx.deleteFrom('workspaces').where('id', 'in', ids).execute()
    if (freed.length > 0) await tx.deleteFrom('workspace_keys').where('workspace_id', 'in', freed).execute()
    return ids.length
  })
}

function tombstones(db: Pick<Db, 'selectFrom'>, deleted_before: Date) {
  return db.selectFrom('workspaces').where('observed_state', '=', 'deleted').where('deleted_at', '<', deleted_before)
}

/**
 * Locks operations before workspaces, as everywhere, and in the order of their ids.
 * Otherwise a deadlock is possible with another cell that removes the source of a fork whose target is removed here.
 */
async function lockOperations(tx: Tx, workspace_ids: string[]): Promise<void> {
  await tx
    .selectFrom('operations')
    .select('id')
    .where((eb) => eb.or([eb('workspace_id', 'in', workspace_ids), eb('source_workspace_id', 'in', workspace_ids)]))
    .orderBy('id')
    .forUpdate()
    .execute()
}

function namesOf(rows: readonly { id: string }[]): string[] {
  return rows.map(({ id }) => id)
}

/** Does not remove a checkpoint while its workspace is held or would resume from it. The next reconcile pass removes the files. */
export async function dropExpiredCheckpoints(db: Db, now: Date, deleted_before: Date): Promise<number> {
  const { rows } = await sql`
    delete from checkpoints where id = any(array(
      select c.id from checkpoints c join workspaces w on w.id = c.workspace_id
      where (c.expires_at < ${now} and c.deleted_at is null or c.deleted_at < ${deleted_before}) and w.checkpoint_id is distinct from c.id
        and not exists (select from workspace_holds h where h.workspace_id = w.id)
      limit ${BATCH.checkpoints}
    )) returning id`.execute(db)
  return rows.length
}
