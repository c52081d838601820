import type { CheckpointInfo } from '../../../contract/internal/host-inventory.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { HostFailure } from '../host/hostd.ts'
import { deleteAdopted, holds, releaseFork } from './adopt-store.ts'
import { captureInto, refuseSmallerMemory } from './copying.ts'
import { operationError, Refused } from './errors.ts'
import { callHost, prepareCapture, takeOver, type Job } from './job.ts'
import { replacement, type Content } from './replace.ts'
import { restoreRequest } from './requests.ts'
import { commitRunning, completeRunning, howItBegan } from './running.ts'
import { readMachineRow, type MachineRow, LostRace } from '../machines/machine-row-store.ts'
import { unpause } from './suspend.ts'

/** The fork is held until its capture is committed. A fork to be deleted is held until the success deletes it (decision 315). */
export const adopt = replacement({
  replaced: 'restored',
  async contentOf(job, seen) {
    const fork = await readMachineRow(job.cell.db, forkOf(job))
    try {
      return await captureFork(job, seen, fork)
    } catch (error) {
      // A deleted fork also causes these errors. A missing hold proves the deletion, which is then the error to report.
      const is_refused = error instanceof LostRace || error instanceof HostFailure || error instanceof Refused
      if (is_refused && !(await holds(job.cell.db, job.operation, fork.id))) throw new Refused(FORK_GONE)
      throw error
    }
  },
  async committing(tx, job) {
    if (!(await releaseFork(tx, job.operation, forkOf(job), deletes(job)))) throw new Refused(FORK_GONE)
  },
  async start(job, seen, end) {
    const { checkpoint_id } = seen // the commit has set the content
    if (checkpoint_id === null) throw new LostRace('The content of an adoption')
    const machine = await callHost(job, seen.id, 'restore', seen.ownership_epoch, (fence) =>
      job.cell.host.restore(restoreRequest(fence, seen, checkpoint_id, { renew_identity: true })),
    )
    await completeRunning(job, await commitRunning(job, seen, machine, end, await howItBegan(job, seen)), machine, end)
  },
  /** Unpauses the fork, because an interrupted capture may have left it paused. */
  async undone(job) {
    try {
      const fork = await readMachineRow(job.cell.db, forkOf(job))
      if (fork.observed_state === 'running') await unpause(job, fork, 'unpause-undo')
    } catch (error) {
      if (!(error instanceof LostRace)) throw error // the fork is deleted
    }
  },
  start_failed: 'resume_undone',
  desired_after_failure: 'suspended',
  end: { event: 'resumed', before_commit: 'adopt.A6b', before_connect: 'adopt.A6c' },
  async finishing(job) {
    if (deletes(job)) {
      await failpoint('adopt.A7')
      await deleteAdopted(job, forkOf(job))
    }
    await failpoint('adopt.A8')
  },
  points: { close: 'adopt.A2', capture: 'adopt.A4', commit: 'adopt.A5', stop: 'adopt.A6', start: 'adopt.A6a' },
})

const FORK_GONE = operationError('checkpoint_failed', 'The fork was deleted before it was adopted', { reason: 'workspace_deleted' })
const FORK_NOT_RUNNING = operationError('checkpoint_failed', 'The fork does not run any more', { reason: 'not_running' })

async function captureFork(job: Job, seen: MachineRow, fork: MachineRow): Promise<Content> {
  if (job.operation.attempt > 1) await wakeFork(job, fork)
  if (fork.observed_state !== 'running' && fork.observed_state !== 'suspended') throw new Refused(FORK_NOT_RUNNING)
  await prepareCapture(job, fork.id)
  await failpoint('adopt.A3')
  if (fork.disk === null && fork.checkpoint_id === null) throw new LostRace('The sleeping fork')
  // A running fork continues to run, and is deleted only once the workspace runs.
  const made = await captureInto(job, 'capture-fork', fork, { id: seen.id, epoch: seen.ownership_epoch })
  refuseSmaller(seen, made)
  const startup = fork.startup === null ? {} : { startup: fork.startup } // the captured memory holds this start-up
  return { checkpoint_id: made.checkpoint_id, made, made_as: 'fork', supersedes: true, ...startup }
}

async function wakeFork(job: Job, fork: MachineRow): Promise<void> {
  await takeOver(job, fork.id, fork.ownership_epoch)
  if (fork.observed_state === 'running') await unpause(job, fork, 'unpause-earlier')
}

/** The size of the workspace does not change, so content of the fork that does not fit is refused. */
function refuseSmaller(seen: MachineRow, { resources, disk_bytes, engine }: CheckpointInfo): void {
  refuseSmallerMemory(seen, engine === '' ? 0 : resources.memory_mib, 'The workspace is smaller than the memory of the fork')
  const { ceilings } = seen
  const disk_gib = Math.ceil((disk_bytes ?? 0) / 2 ** 30)
  if (disk_gib > ceilings.disk_gib) {
    const details = { reason: 'below_captured_disk', required: { disk_gib }, ceiling: { disk_gib: ceilings.disk_gib } }
    throw new Refused(operationError('invalid_resources', 'The workspace is smaller than what lies on the disk of the fork', details))
  }
}

function forkOf({ operation }: Job): string {
  const { source_workspace_id } = operation
  if (source_workspace_id === null) throw new LostRace('The fork of an adoption')
  return source_workspace_id
}

function deletes({ operation }: Job): boolean {
  return operation.input['delete_fork'] === true
}
