import { machineState } from '../../../contract/states/machine.ts'
import { serviceOrigin } from '../../core/changes/audit.ts'
import { mutate, type ChangeTx } from '../../core/changes/mutate.ts'
import { aboutWorkspace, insertOperation } from '../../core/workspaces/operations/store.ts'
import { markDeleted } from '../../core/workspaces/state-store.ts'
import type { Db } from '../../db/database.ts'
import type { Job } from './job.ts'
import { freeKey, ofAttempt, releaseHold, type OpenOperation } from './store.ts'
import type { Tx } from '../../db/reader.ts'
import { readMachineRow, LostRace } from '../machines/machine-row-store.ts'

/** Whether the operation still holds the workspace: a delete of the workspace removes the hold. */
export async function holds(db: Pick<Db, 'selectFrom'>, { id }: OpenOperation, workspace_id: string): Promise<boolean> {
  const row = await db
    .selectFrom('workspace_holds')
    .select('operation_id')
    .where('operation_id', '=', id)
    .where('workspace_id', '=', workspace_id)
    .executeTakeFirst()
  return row !== undefined
}

/** @returns false if a delete has removed the hold */
export async function releaseFork(tx: Tx, operation: OpenOperation, fork_id: string, is_kept: boolean): Promise<boolean> {
  if (!(await holds(tx, operation, fork_id))) return false
  if (!is_kept) await releaseHold(tx, operation, fork_id)
  return true
}

/** Deletes the fork, unless an earlier attempt or a caller has deleted it already. */
export async function deleteAdopted({ cell, operation }: Job, fork_id: string): Promise<void> {
  const now = cell.clock.now()
  const work = async (tx: ChangeTx) => {
    const { numUpdatedRows } = await ofAttempt(tx, operation).set({ updated_at: now }).executeTakeFirst()
    if (numUpdatedRows !== 1n) throw new LostRace('The operation')
    if (!(await holds(tx, operation, fork_id))) return null
    const seen = await readMachineRow(tx, fork_id)
    if (machineState(seen.observed_state, 'delete_begun') === null) return null
    const fork = await markDeleted(tx, fork_id, 'adopted', now)
    await freeKey(tx, seen)
    await releaseHold(tx, operation, fork_id)
    const input = { reason: 'adopted', adopted_by: operation.workspace_id }
    const deletion = { ...aboutWorkspace(fork), id: cell.ids.next(), kind: 'delete', cell_id: seen.cell_id, input, now } as const
    await insertOperation(tx, deletion, { workspace_ids: [fork_id], gate: 'closed' })
    return { ...fork, details: input }
  }
  await mutate(
    cell.db,
    serviceOrigin('cell', { ids: cell.ids, now }),
    'workspaces.delete',
    work,
    (done) => done && { kind: 'workspace', ...done },
  )
  await cell.table.fresh(fork_id)
}
