import { failpoint } from '../../lib/failpoints.ts'
import { startError } from './errors.ts'
import { ask, type OperationKind } from './job.ts'
import { clearEarlier, stopAttempt } from './open.ts'
import { restoreRequest } from './requests.ts'
import { COMMITTED, commitRunning, completeRunning, type RunningEnd } from './running.ts'
import { asAttempt, finish, LostRace, moveWorkspace, readMachineRow } from './store.ts'

const END: RunningEnd = {
  event: 'resumed',
  before_commit: 'resume.R6',
  before_connect: 'resume.R7',
  before_success: 'resume.R8',
  result: {},
}

/** Restores a suspended workspace. Its checkpoint stays as it is until the next one is committed. */
export const resume: OperationKind = {
  async drive(job) {
    const { workspace_id, step } = job.operation
    if (step === COMMITTED) return completeRunning(job, workspace_id, END)
    const seen = await readMachineRow(job.cell.db, workspace_id)
    const { checkpoint_id } = seen
    if (checkpoint_id === null) throw new LostRace('The workspace')
    if (job.operation.attempt > 1) await clearEarlier(job, seen)
    await failpoint('resume.R3')
    const machine = await ask(job, workspace_id, 'restore', seen.ownership_epoch + 1, (fence) =>
      job.cell.host.restore(restoreRequest(fence, seen, checkpoint_id, { renew_identity: false })),
    )
    await commitRunning(job, seen, machine, END)
    await completeRunning(job, workspace_id, END, machine)
  },
  async undo(job, error) {
    const seen = await readMachineRow(job.cell.db, job.operation.workspace_id)
    await stopAttempt(job, seen, 'stop-undo')
    const now = job.cell.clock.now()
    await asAttempt(job.cell.db, job.operation, now, async (tx) => {
      await moveWorkspace(tx, seen, 'resume_undone', now, { desired_state: 'suspended', pending_reason: null })
      await finish(tx, job.operation, now, { state: 'failed', error })
    })
    await job.cell.table.fresh(seen.id)
  },
  errorOf: startError,
}
