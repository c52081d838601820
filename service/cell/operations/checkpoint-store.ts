import type { CheckpointInfo } from '../../../contract/internal/host-inventory.ts'
import type { CellContext } from './job.ts'
import type { OpenOperation } from './store.ts'
import type { Tx } from '../../db/reader.ts'

/** Called after hostd has answered, which it does only once the files are durable. */
export async function insertCheckpoint(
  tx: Tx,
  cell: CellContext,
  operation: Pick<OpenOperation, 'id'>,
  info: CheckpointInfo,
  as: { kind: 'suspend' | 'fork' | 'snapshot' | 'recovery' | 'layer'; label: string | null; expires_at: Date | null },
): Promise<void> {
  await tx
    .insertInto('checkpoints')
    .values({
      id: info.checkpoint_id,
      workspace_id: info.subject.id,
      cell_id: cell.cell_id,
      operation_id: operation.id,
      ...as,
      epoch: info.epoch,
      engine: info.engine,
      size_bytes: info.size_bytes,
      disk_bytes: info.disk_bytes,
      resources: JSON.stringify(info.resources),
      created_at: cell.clock.now(),
    })
    .execute()
}

/** Throws if the checkpoint has no row, because the suspend would lose the workspace. */
export async function keepForSuspend(tx: Tx, operation: OpenOperation, checkpoint_id: string): Promise<void> {
  const kept = { kind: 'suspend', operation_id: operation.id } as const
  const { numUpdatedRows } = await tx.updateTable('checkpoints').set(kept).where('id', '=', checkpoint_id).executeTakeFirst()
  if (numUpdatedRows !== 1n) throw new Error('The checkpoint of a hibernated workspace has no row')
}

/** A snapshot is not changed: it has its own lifetime. */
export async function keepForRecovery(tx: Tx, checkpoint_id: string, expires_at: Date): Promise<void> {
  await tx
    .updateTable('checkpoints')
    .set({ kind: 'recovery', expires_at })
    .where('id', '=', checkpoint_id)
    .where('kind', '<>', 'snapshot')
    .execute()
}

export async function dropCheckpoints(tx: Tx, workspace_id: string): Promise<void> {
  await tx.deleteFrom('checkpoints').where('workspace_id', '=', workspace_id).execute()
}

/** The checkpoint's memory, which a fork must have at least. 0: the checkpoint is only a disk. */
export async function capturedMemoryMib(db: CellContext['db'], checkpoint_id: string): Promise<number> {
  const row = await db.selectFrom('checkpoints').select(['resources', 'engine']).where('id', '=', checkpoint_id).executeTakeFirst()
  return row === undefined || row.engine === '' ? 0 : row.resources.memory_mib
}

/** Whether the checkpoint is only a disk. A restore of it boots, because it contains no processes. */
export async function isDiskAlone(db: CellContext['db'], checkpoint_id: string): Promise<boolean> {
  const row = await db.selectFrom('checkpoints').select('engine').where('id', '=', checkpoint_id).executeTakeFirst()
  return row?.engine === ''
}
