import { failpoint } from '../../lib/failpoints.ts'
import type { CheckpointInfo } from '../links/hostd.ts'
import { dropSuperseded, insertCheckpoint } from './checkpoint-store.ts'
import { captureError } from './errors.ts'
import { ask, askUnless, findMachine, takeOver, tidy, type Job, type OperationKind } from './job.ts'
import { COMMITTED, dropDisks } from './running.ts'
import { asAttempt, finish, moveWorkspace, readMachineRow, setStep, type MachineRow } from './store.ts'

/**
 * How long calls in progress may take to end before the guest stands still. Calls that take longer, and streams, are silent while
 * it is captured: they end with the commit, or go on as if nothing had been when there is none.
 */
const DRAIN_MS = 1000

/** Saves memory, processes and disk, commits, and only then gives the machine up. */
export const suspend: OperationKind = {
  async drive(job) {
    const { cell, operation } = job
    const { workspace_id } = operation
    if (operation.step === COMMITTED) return giveUpMachine(job, await readMachineRow(cell.db, workspace_id), [], [])
    const seen = await readMachineRow(cell.db, workspace_id)
    if (operation.attempt > 1) await wakeAfterEarlier(job, seen)
    await failpoint('suspend.S2')
    await cell.table.fresh(workspace_id) // the gate is closed in memory too before anything is waited for
    await cell.table.activity.drained(workspace_id, DRAIN_MS)
    await failpoint('suspend.S3')
    const checkpoint_id = cell.ids.next()
    const info = await ask(job, workspace_id, 'checkpoint', seen.ownership_epoch, (fence) =>
      cell.host.checkpoint({ ...fence, checkpoint_id, then: 'paused' }),
    )
    const superseded = await commitSuspended(job, seen, info)
    await cell.table.fresh(workspace_id)
    await giveUpMachine(job, await readMachineRow(cell.db, workspace_id), superseded, [seen.disk])
  },
  async undo(job, error) {
    const { cell, operation } = job
    const seen = await readMachineRow(cell.db, operation.workspace_id)
    const alive = await unpause(job, seen, 'unpause-undo')
    const now = cell.clock.now()
    await asAttempt(cell.db, operation, now, async (tx) => {
      if (alive) await moveWorkspace(tx, seen, 'suspend_undone', now, { desired_state: 'running', active_at: now })
      else await moveWorkspace(tx, seen, 'lost', now, { desired_state: 'running', grants: null })
      await finish(tx, operation, now, { state: 'failed', error })
    })
    await cell.table.fresh(seen.id)
  },
  errorOf: captureError,
}

/** An earlier attempt may have left the guest paused: it runs before it is paused again. */
async function wakeAfterEarlier(job: Job, seen: MachineRow): Promise<void> {
  await takeOver(job, seen.id, seen.ownership_epoch)
  await unpause(job, seen, 'unpause-earlier')
}

/** @returns false when there is no machine any more. */
export async function unpause(job: Job, seen: MachineRow, step: 'unpause-earlier' | 'unpause-undo'): Promise<boolean> {
  if (job.operation.attempt === 0) return true
  const machine = await findMachine(job, seen.id)
  if (machine?.epoch !== seen.ownership_epoch) return false
  return askUnless(job, ['not_running', 'not_found'], seen.id, step, seen.ownership_epoch, (fence) => job.cell.host.unpause(fence))
}

async function commitSuspended(job: Job, seen: MachineRow, info: CheckpointInfo): Promise<string[]> {
  const { cell, operation } = job
  await failpoint('suspend.S8')
  const now = cell.clock.now()
  return asAttempt(cell.db, operation, now, async (tx) => {
    await insertCheckpoint(tx, cell, operation, 'suspend', info)
    const superseded = await dropSuperseded(tx, seen.id, info.checkpoint_id)
    await moveWorkspace(tx, seen, 'suspended', now, {
      ownership_epoch: seen.ownership_epoch + 1,
      desired_state: 'suspended',
      checkpoint_id: info.checkpoint_id,
      disk: null,
      grants: null,
      suspend_request: null,
    })
    // The machine still takes its room until it is dead.
    await setStep(tx, operation, COMMITTED, seen.grants === null ? {} : { reserved: seen.grants })
    return superseded
  })
}

/** After the commit there is only forward: the paused machine may never run again. */
async function giveUpMachine(job: Job, row: MachineRow, checkpoints: string[], disks: (string | null)[]): Promise<void> {
  const { cell, operation } = job
  await failpoint('suspend.S9')
  const epoch = row.ownership_epoch
  await ask(job, row.id, 'stop', epoch, (fence) => cell.host.stop({ ...fence, machine_epoch: epoch - 1 }))
  await failpoint('suspend.S11')
  const now = cell.clock.now()
  await asAttempt(cell.db, operation, now, (tx) =>
    finish(tx, operation, now, { state: 'succeeded', result: { checkpoint_id: row.checkpoint_id } }),
  )
  await cell.table.fresh(row.id)
  await dropDisks(job, row.id, epoch, disks)
  if (checkpoints.length === 0) return
  await tidy(job, 'superseded checkpoints', () =>
    ask(job, row.id, 'drop-checkpoints', epoch, (fence) => cell.host.deleteCheckpoints({ ...fence, names: checkpoints })),
  )
}
