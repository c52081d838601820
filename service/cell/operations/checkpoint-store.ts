import type { CheckpointInfo } from '../links/hostd.ts'
import type { CellContext } from './job.ts'
import type { OpenOperation, Tx } from './store.ts'

/** The row of files that are durable already: hostd answers only then. */
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

/** What a workspace was hibernated to is what it is suspended to. Throws where there is none: to suspend it on nothing would lose it. */
export async function keepForSuspend(tx: Tx, operation: OpenOperation, checkpoint_id: string): Promise<void> {
  const kept = { kind: 'suspend', operation_id: operation.id } as const
  const { numUpdatedRows } = await tx.updateTable('checkpoints').set(kept).where('id', '=', checkpoint_id).executeTakeFirst()
  if (numUpdatedRows !== 1n) throw new Error('The checkpoint of a hibernated workspace has no row')
}

/** What a suspended workspace was stays restorable for a while; what was kept for longer anyhow stays as it is. */
export async function keepForRecovery(tx: Tx, checkpoint_id: string, expires_at: Date): Promise<void> {
  await tx
    .updateTable('checkpoints')
    .set({ kind: 'recovery', expires_at })
    .where('id', '=', checkpoint_id)
    .where('kind', '<>', 'snapshot')
    .execute()
}

/** Rows before files: a row must never name files that are gone. @returns the names whose files may go. */
export async function dropSuperseded(tx: Tx, workspace_id: string, kept: string): Promise<string[]> {
  const rows = await tx
    .deleteFrom('checkpoints')
    .where('workspace_id', '=', workspace_id)
    .where('kind', 'in', ['suspend', 'fork', 'parked'])
    .where('id', '<>', kept)
    .where('deleted_at', 'is', null)
    .returning('id')
    .execute()
  return rows.map(({ id }) => id)
}

export async function dropCheckpoints(tx: Tx, workspace_id: string): Promise<void> {
  await tx.deleteFrom('checkpoints').where('workspace_id', '=', workspace_id).execute()
}

/** Memory that the checkpoint holds, none of a disk alone, for the rule that a fork may not be smaller. */
export async function capturedMemoryMib(db: CellContext['db'], checkpoint_id: string): Promise<number> {
  const row = await db.selectFrom('checkpoints').select(['resources', 'engine']).where('id', '=', checkpoint_id).executeTakeFirst()
  return row === undefined || row.engine === '' ? 0 : row.resources.memory_mib
}

/** Whether a restore of it boots: a disk alone holds nothing that runs. */
export async function isDiskAlone(db: CellContext['db'], checkpoint_id: string): Promise<boolean> {
  const row = await db.selectFrom('checkpoints').select('engine').where('id', '=', checkpoint_id).executeTakeFirst()
  return row?.engine === ''
}
