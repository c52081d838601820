import { failpoint } from '../../lib/failpoints.ts'
import { openWarm } from './warm/open.ts'
import { onItsState } from './draft-state.ts'
import { startError } from './errors.ts'
import { callHost, claimedRow, takeOver, type Job, type OperationKind } from './job.ts'
import {
  COMMITTED,
  commitRunning,
  completeEarlier,
  completeRunning,
  dropDisks,
  howItBegan,
  startRunning,
  type RunningEnd,
} from './running.ts'
import { endAttempt, moveWorkspace } from './store.ts'
import { readMachineRow, type MachineRow } from '../machines/machine-row-store.ts'
import { restoreRequest } from './requests.ts'

const END: RunningEnd = { event: 'started', before_commit: 'open.O8', before_connect: 'open.O9', result: {} }

export const open: OperationKind = {
  async drive(job) {
    if (job.operation.step === COMMITTED) return completeEarlier(job, END)
    const seen = await claimedRow(job)
    if (job.operation.attempt > 1) await clearEarlier(job, seen)
    await failpoint('open.O4')
    const row = await onItsState(job, seen)
    if (seen.disk === null && seen.checkpoint_id !== null) return restoreCapture(job, seen, seen.checkpoint_id)
    if (await openWarm(job, seen, END)) return
    const epoch = seen.ownership_epoch + 1
    await startRunning(job, row, epoch, seen.disk, END)
    await dropDisks(job, seen.id, epoch, [seen.disk])
  },
  async undo(job, error) {
    const seen = await readMachineRow(job.cell.db, job.operation.workspace_id)
    await stopAttempt(job, seen, 'stop-undo')
    const now = job.cell.clock.now()
    await endAttempt(job.cell.db, job.operation, now, { state: 'failed', error }, async (tx) => {
      await moveWorkspace(tx, seen, 'start_failed', now, { pending_reason: null })
    })
    await job.cell.table.fresh(seen.id)
  },
  errorOf: startError,
}

/** Restores the capture with its memory: a boot of its disk, or a blank machine, would not be the copy. */
async function restoreCapture(job: Job, seen: MachineRow, checkpoint_id: string): Promise<void> {
  const machine = await callHost(job, seen.id, 'restore', seen.ownership_epoch + 1, (fence) =>
    job.cell.host.restore(restoreRequest(fence, seen, checkpoint_id, { renew_identity: true })),
  )
  await completeRunning(job, await commitRunning(job, seen, machine, END, await howItBegan(job, seen)), machine, END)
}

/** Stops a machine that an earlier attempt may have started without committing it. */
export async function clearEarlier(job: Job, seen: MachineRow): Promise<void> {
  await takeOver(job, seen.id, seen.ownership_epoch + 1)
  await stopAttempt(job, seen, 'stop-earlier')
}

/** Does nothing for an operation that was never claimed, because it started no machine. */
export async function stopAttempt(job: Job, seen: MachineRow, step: 'stop-earlier' | 'stop-undo'): Promise<void> {
  if (job.operation.attempt === 0) return
  await callHost(job, seen.id, step, seen.ownership_epoch + 1, (fence) => job.cell.host.stop(fence))
}
