import { failpoint } from '../../lib/failpoints.ts'
import { dropCheckpoints } from './checkpoint-store.ts'
import { operationError } from './errors.ts'
import { callHost, type Job, takeOver, type OperationKind } from './job.ts'
import { endAttempt, freeKey, moveWorkspace } from './store.ts'
import { readMachineRow } from '../machines/machine-row-store.ts'

/** No undo: the API has acknowledged the deletion. */
export const remove: OperationKind = {
  async drive(job) {
    const { cell, operation } = job
    const { workspace_id } = operation
    const seen = await readMachineRow(cell.db, workspace_id)
    if (seen.mode === 'file_first') await removeTree(job, workspace_id)
    else await removeMachine(job, workspace_id, seen.ownership_epoch)
    await failpoint('delete.D6')
    const now = cell.clock.now()
    await endAttempt(cell.db, operation, now, { state: 'succeeded', result: {} }, async (tx) => {
      await dropCheckpoints(tx, workspace_id)
      await moveWorkspace(tx, seen, 'deleted', now, {
        disk: null,
        checkpoint_id: null,
        grants: null,
        pending_reason: null,
        suspend_request: null,
      })
      if (seen.lifetime === 'session') await freeKey(tx, seen)
    })
    await cell.table.fresh(workspace_id)
  },
  undo: null,
  errorOf: (failure) => operationError('dependency_failed', 'The host could not remove the workspace', { reason: failure.code }),
}

/** Also stops a command that runs on the tree: the command could not publish its result. */
async function removeTree(job: Job, workspace_id: string): Promise<void> {
  const { cell, operation } = job
  await cell.trees.remove(workspace_id)
  const subject = { kind: 'execution', id: workspace_id } as const
  const fence = { subject, operation_id: operation.id, step: 'delete-copy', epoch: 1, fence: operation.fence }
  await callHost(job, workspace_id, 'delete-copy', 1, () => cell.host.deleteSubject(fence))
}

async function removeMachine(job: Job, workspace_id: string, epoch: number): Promise<void> {
  const { host } = job.cell
  await takeOver(job, workspace_id, epoch)
  await failpoint('delete.D4')
  await callHost(job, workspace_id, 'stop', epoch, (fence) => host.stop(fence))
  await failpoint('delete.D5')
  await callHost(job, workspace_id, 'delete', epoch, (fence) => host.deleteSubject(fence))
}
