import { MEMORY_REFUSALS } from '../../../contract/errors.ts'
import { because } from '../host/memory-refusal.ts'
import { memoryError, Refused } from './errors.ts'
import { callHost, type Job } from './job.ts'
import { replacement, type Content } from './replace.ts'
import { restoreRequest } from './requests.ts'
import { commitRunning, completeRunning, howItBegan } from './running.ts'
import { type MachineRow, LostRace } from '../machines/machine-row-store.ts'
import { workspaceSubject } from '../host/subject.ts'

/** A restore only reads the checkpoint and never changes it. */
export const restore = replacement({
  replaced: 'restored',
  contentOf: (job, seen) => (job.operation.input['memory'] === false ? withoutMemory(job, seen) : withMemory(job, seen)),
  async start(job, seen, end) {
    const { checkpoint_id } = seen // the commit has set the content
    if (checkpoint_id === null) throw new LostRace('The content of a restore')
    const machine = await callHost(job, seen.id, 'restore', seen.ownership_epoch, (fence) =>
      job.cell.host.restore(restoreRequest(fence, seen, checkpoint_id, { renew_identity: false })),
    )
    await completeRunning(job, await commitRunning(job, seen, machine, end, await howItBegan(job, seen)), machine, end)
  },
  start_failed: 'resume_undone',
  desired_after_failure: 'suspended',
  end: { event: 'resumed', before_commit: 'restore.V6b', before_connect: 'restore.V6c', before_success: 'restore.V7' },
  points: { close: 'restore.V2', capture: 'restore.V3', commit: 'restore.V5', stop: 'restore.V6', start: 'restore.V6a' },
})

/** Checks the memory of the checkpoint, in order to refuse before any change. */
async function withMemory(job: Job, { id }: MachineRow): Promise<Content> {
  const checkpoint_id = wantedCheckpoint(job)
  const { files } = await callHost(job, id, 'inventory', 0, () => job.cell.host.inventory())
  const found = files.find(({ subject }) => subject.id === id)?.checkpoints.find((one) => one.checkpoint_id === checkpoint_id)
  const why = MEMORY_REFUSALS.find((each) => each === found?.memory_refused)
  if (why === undefined) return { checkpoint_id }
  const { missing_features } = found ?? {}
  const told = { why, because: because(why), workspace_id: id, checkpoint_id, without_memory: true }
  throw new Refused(memoryError(missing_features === undefined ? told : { ...told, missing_features }))
}

/** The machine boots on a copy without memory. The memory of the checkpoint is not deleted, because a later host may restore it. */
async function withoutMemory(job: Job, seen: MachineRow): Promise<Content> {
  const source = { source: workspaceSubject(seen.id), source_checkpoint_id: wantedCheckpoint(job) }
  const checkpoint_id = job.cell.ids.next()
  const made = await callHost(job, seen.id, 'copy-disk', seen.ownership_epoch, (fence) =>
    job.cell.host.cloneCheckpoint({ ...fence, ...source, checkpoint_id, disk_only: true }),
  )
  return { checkpoint_id, made }
}

function wantedCheckpoint({ operation }: Job): string {
  const { checkpoint_id } = operation.input
  if (typeof checkpoint_id !== 'string') throw new LostRace('The checkpoint of a restore')
  return checkpoint_id
}
