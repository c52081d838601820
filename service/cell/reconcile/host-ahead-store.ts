import { sql } from 'kysely'
import type { CheckpointInfo } from '../../../contract/internal/host-inventory.ts'
import type { Db } from '../../db/database.ts'
import { operationError } from '../operations/errors.ts'
import { LostRace } from '../machines/machine-row-store.ts'
import type { ExpectedRow } from './reconcile-store.ts'
import type { Repair } from './orphan-rules.ts'

/**
 * Raises the sequence of fences: after a database restore the host would refuse commands with lower fences.
 * @returns whether the sequence was lower.
 */
export async function raiseFences(db: Db, highest: number): Promise<boolean> {
  const { rows } = await sql`select setval('fences', ${highest}) from fences where last_value < ${highest}`.execute(db)
  return rows.length > 0
}

/** The quarantine starts again, because the restored times are from before the restore. */
export async function restartQuarantine(db: Db, cell_id: string): Promise<void> {
  await db.deleteFrom('unnamed_layers').where('cell_id', '=', cell_id).execute()
}

/** Must be read after the inventory: a later attempt can only raise the fence. */
export async function readKnownFences(db: Db, workspace_ids: string[]): Promise<Map<string, number>> {
  const { rows } = await sql<{ id: string; fence: number }>`
    select w.id, greatest(w.residency_fence,
      (select max(o.fence) from operations o where o.workspace_id = w.id),
      (select max(o.fence) from operations o where o.source_workspace_id = w.id)) as fence
    from workspaces w where w.id = any(${workspace_ids}::uuid[])`.execute(db)
  return new Map(rows.map(({ id, fence }) => [id, fence]))
}

export interface Repairing {
  cell_id: string
  operation_id: string
  fence: number
  now: Date
  expires_at: Date
}

/** @throws LostRace if the row has changed since it was read: nothing has changed. */
export async function repair(db: Db, seen: ExpectedRow, to: Repair, kept: CheckpointInfo[], by: Repairing): Promise<void> {
  await db.transaction().execute(async (tx) => {
    const error = operationError('interrupted', 'The database was put back to a time before this operation ended')
    await sql`
      with ended as (
        update operations set state = 'failed', state_reason = null, error = ${JSON.stringify(error)}, completed_at = ${by.now}, updated_at = ${by.now}
        where completed_at is null and (workspace_id = ${seen.id} or source_workspace_id = ${seen.id}) and kind <> 'delete'
        returning id
      ) delete from workspace_holds where operation_id in (select id from ended)`.execute(tx)
    const columns = columnsOf(to, seen)
    const { rows } = await sql`
      update workspaces set ${columns} residency_fence = greatest(residency_fence, ${by.fence}), updated_at = ${by.now}
      where id = ${seen.id} and observed_state = ${seen.observed_state} and ownership_epoch = ${seen.ownership_epoch}
        and disk is not distinct from ${seen.disk} and deleted_at is null
      returning id`.execute(tx)
    if (rows.length === 0) throw new LostRace('The workspace')
    const insert = (info: CheckpointInfo, kind: 'suspend' | 'recovery', expires_at: Date | null) =>
      sql`
      insert into checkpoints (id, workspace_id, cell_id, operation_id, kind, label, epoch, engine, size_bytes, resources, created_at, expires_at)
      values (${info.checkpoint_id}, ${seen.id}, ${by.cell_id}, ${by.operation_id}, ${kind}, null, ${info.epoch}, ${info.engine},
        ${info.size_bytes}, ${JSON.stringify(info.resources)}, ${info.created_at}, ${expires_at})`.execute(tx)
    // Checkpoints that the row named before can be restored for the same number of days.
    if (to.kind !== 'keep')
      await sql`
        update checkpoints set kind = 'recovery', expires_at = ${by.expires_at}
        where workspace_id = ${seen.id} and kind in ('suspend', 'fork', 'parked')`.execute(tx)
    if (to.kind === 'suspended') await insert(to.checkpoint, 'suspend', null)
    for (const info of kept) await insert(info, 'recovery', by.expires_at)
  })
}

/** Raises the epoch, so that tokens issued after the restored state are refused as outdated. A running machine keeps its own epoch. */
function columnsOf(to: Repair, { ownership_epoch }: ExpectedRow) {
  switch (to.kind) {
    case 'keep':
      return sql``
    case 'running': {
      const { epoch, disk, resources } = to.machine
      return sql`observed_state = 'running', desired_state = 'running', ownership_epoch = ${epoch}, disk = ${disk}, checkpoint_id = null,
        residency = 'resident', pending_reason = null, grant_cpu_millis = ${resources.cpu_millis},
        grant_memory_mib = ${resources.memory_mib}, grant_disk_gib = ${resources.disk_gib},`
    }
    case 'suspended':
      return sql`observed_state = 'suspended', desired_state = 'suspended', ownership_epoch = ${Math.max(ownership_epoch, to.checkpoint.epoch) + 1},
        disk = null, checkpoint_id = ${to.checkpoint.checkpoint_id}, residency = 'resident', pending_reason = null,
        grant_cpu_millis = null, grant_memory_mib = null, grant_disk_gib = null,`
    case 'failed':
      return sql`observed_state = 'failed', ownership_epoch = ${Math.max(ownership_epoch, to.epoch) + 1}, disk = ${to.disk}, checkpoint_id = null,
        residency = 'resident', pending_reason = null, grant_cpu_millis = null, grant_memory_mib = null, grant_disk_gib = null,`
  }
}
