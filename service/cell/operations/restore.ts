import { ask, type Job } from './job.ts'
import { replacement } from './replace.ts'
import { restoreRequest } from './requests.ts'
import { commitRunning, completeRunning } from './running.ts'
import { LostRace } from './store.ts'

/** Back to a checkpoint of the workspace's own, in place: the checkpoint itself is only read. */
export const restore = replacement({
  replaced: 'restored',
  contentOf: wantedCheckpoint,
  async start(job, seen, end) {
    const machine = await ask(job, seen.id, 'restore', seen.ownership_epoch, (fence) =>
      job.cell.host.restore(restoreRequest(fence, seen, wantedCheckpoint(job), { renew_identity: false })),
    )
    await completeRunning(job, await commitRunning(job, seen, machine, end), end)
  },
  start_failed: 'resume_undone',
  desired_after_failure: 'suspended',
  end: { event: 'resumed', before_commit: 'restore.V6b', before_connect: 'restore.V6c', before_success: 'restore.V7' },
  points: { close: 'restore.V2', capture: 'restore.V3', commit: 'restore.V5', stop: 'restore.V6', start: 'restore.V6a' },
})

function wantedCheckpoint({ operation }: Job): string {
  const { checkpoint_id } = operation.input
  if (typeof checkpoint_id !== 'string') throw new LostRace('The checkpoint of a restore')
  return checkpoint_id
}
