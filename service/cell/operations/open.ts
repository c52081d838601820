import { failpoint } from '../../lib/failpoints.ts'
import type { Machine } from '../links/hostd.ts'
import { startError } from './errors.ts'
import { ask, takeOver, type Job, type OperationKind } from './job.ts'
import { COMMITTED, commitRunning, completeRunning, dropDisks, type RunningEnd } from './running.ts'
import { asAttempt, finish, moveWorkspace, readMachineRow, type MachineRow } from './store.ts'
import { restoreRequest, startRequest } from './requests.ts'

const END: RunningEnd = { event: 'started', before_commit: 'open.O8', before_connect: 'open.O9', before_success: 'open.O10', result: {} }

/** Starts the machine of a new workspace, or of one whose machine died. */
export const open: OperationKind = {
  async drive(job) {
    const { workspace_id, step } = job.operation
    if (step === COMMITTED) return completeRunning(job, workspace_id, END)
    const seen = await readMachineRow(job.cell.db, workspace_id)
    if (job.operation.attempt > 1) await clearEarlier(job, seen)
    await failpoint('open.O4')
    const machine = await startOn(job, seen)
    await commitRunning(job, seen, machine, END)
    await completeRunning(job, workspace_id, END, machine)
    await dropDisks(job, workspace_id, machine.epoch, [seen.disk])
  },
  async undo(job, error) {
    const seen = await readMachineRow(job.cell.db, job.operation.workspace_id)
    await stopAttempt(job, seen, 'stop-undo')
    const now = job.cell.clock.now()
    await asAttempt(job.cell.db, job.operation, now, async (tx) => {
      await moveWorkspace(tx, seen, 'start_failed', now, { pending_reason: null })
      await finish(tx, job.operation, now, { state: 'failed', error })
    })
    await job.cell.table.fresh(seen.id)
  },
  errorOf: startError,
}

/** From its current disk; from its capture where a fork got no further; blank only where nothing was ever committed. */
function startOn(job: Job, seen: MachineRow): Promise<Machine> {
  const { host } = job.cell
  const epoch = seen.ownership_epoch + 1
  const { disk, checkpoint_id } = seen
  if (disk === null && checkpoint_id !== null) {
    return ask(job, seen.id, 'restore', epoch, (fence) =>
      host.restore(restoreRequest(fence, seen, checkpoint_id, { renew_identity: true })),
    )
  }
  return ask(job, seen.id, 'start', epoch, (fence) => host.start(startRequest(fence, seen, disk)))
}

/** An earlier attempt may have started a machine without committing it. */
export async function clearEarlier(job: Job, seen: MachineRow): Promise<void> {
  await takeOver(job, seen.id, seen.ownership_epoch + 1)
  await stopAttempt(job, seen, 'stop-earlier')
}

/** Kills what this operation started for the epoch that it did not commit. An operation that was never claimed started nothing. */
export async function stopAttempt(job: Job, seen: MachineRow, step: 'stop-earlier' | 'stop-undo'): Promise<void> {
  if (job.operation.attempt === 0) return
  await ask(job, seen.id, step, seen.ownership_epoch + 1, (fence) => job.cell.host.stop(fence))
}
