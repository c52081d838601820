import type { Machine } from '../../../contract/internal/host-inventory.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { startError } from './errors.ts'
import { callHost, claimedRow, type Job, type OperationKind } from './job.ts'
import { clearEarlier, stopAttempt } from './open.ts'
import { restoreRequest, startRequest } from './requests.ts'
import { COMMITTED, commitRunning, completeEarlier, completeRunning, howItBegan, type RunningEnd } from './running.ts'
import { endAttempt, moveWorkspace } from './store.ts'
import { readMachineRow, type MachineRow } from '../machines/machine-row-store.ts'

const END: RunningEnd = {
  event: 'resumed',
  before_commit: 'resume.R6',
  before_connect: 'resume.R7',
  before_success: 'resume.R8',
  result: {},
}

/** The checkpoint is not deleted before the next one is committed. */
export const resume: OperationKind = {
  async drive(job) {
    if (job.operation.step === COMMITTED) return completeEarlier(job, END)
    const seen = await claimedRow(job)
    if (job.operation.attempt > 1) await clearEarlier(job, seen)
    await failpoint('resume.R3')
    const machine = await bringBack(job, seen)
    await completeRunning(job, await commitRunning(job, seen, machine, END, await howItBegan(job, seen)), machine, END)
  },
  async undo(job, error) {
    const seen = await readMachineRow(job.cell.db, job.operation.workspace_id)
    await stopAttempt(job, seen, 'stop-undo')
    const now = job.cell.clock.now()
    await endAttempt(job.cell.db, job.operation, now, { state: 'failed', error }, async (tx) => {
      await moveWorkspace(tx, seen, 'resume_undone', now, { desired_state: 'suspended', pending_reason: null })
    })
    await job.cell.table.fresh(seen.id)
  },
  errorOf: startError,
}

/** Restores the checkpoint. A workspace that was reset while it was suspended has none and starts blank. */
function bringBack(job: Job, seen: MachineRow): Promise<Machine> {
  const { host } = job.cell
  const epoch = seen.ownership_epoch + 1
  const { checkpoint_id } = seen
  if (checkpoint_id === null) return callHost(job, seen.id, 'start', epoch, (fence) => host.start(startRequest(fence, seen, null)))
  return callHost(job, seen.id, 'restore', epoch, (fence) =>
    host.restore(restoreRequest(fence, seen, checkpoint_id, { renew_identity: false })),
  )
}
