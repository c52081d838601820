import type { CheckpointInfo } from '../../../contract/internal/host-inventory.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { forgetFailures, noteFailure } from '../machines/idle-store.ts'
import { insertCheckpoint, keepForSuspend } from './checkpoint-store.ts'
import { dropSuperseded } from '../machines/superseded-store.ts'
import { captureError } from './errors.ts'
import { callHost, callHostUnless, claimedRow, findMachine, prepareCapture, takeOver, tidy, type Job, type OperationKind } from './job.ts'
import { COMMITTED, dropDisks } from './running.ts'
import { asAttempt, endAttempt, finish, moveWorkspace } from './store.ts'
import type { Tx } from '../../db/reader.ts'
import { readMachineRow, isHibernated, type MachineRow, LostRace } from '../machines/machine-row-store.ts'

/** The machine stops only after the commit. */
export const suspend: OperationKind = {
  async drive(job) {
    const { cell, operation } = job
    const { workspace_id } = operation
    if (operation.step === COMMITTED) return giveUpMachine(job, await claimedRow(job), [], [])
    const seen = await claimedRow(job)
    if (operation.attempt > 1) await wakeAfterEarlier(job, seen)
    await failpoint('suspend.S2')
    await prepareCapture(job, workspace_id)
    await failpoint('suspend.S3')
    const info = isHibernated(seen) ? null : await capture(job, seen)
    const { row, superseded } = await commitSuspended(job, seen, info)
    await cell.table.fresh(workspace_id)
    await giveUpMachine(job, row, superseded, [seen.disk])
  },
  async undo(job, error) {
    const { cell, operation } = job
    const seen = await readMachineRow(cell.db, operation.workspace_id)
    const alive = await unpause(job, seen, 'unpause-undo')
    const now = cell.clock.now()
    await endAttempt(cell.db, operation, now, { state: 'failed', error }, async (tx) => {
      if (alive) await moveWorkspace(tx, seen, 'suspend_undone', now, { desired_state: 'running' })
      else await moveWorkspace(tx, seen, 'lost', now, { desired_state: 'running', grants: null })
      if (alive && IDLE_REASONS.has(operation.input['reason'])) await noteFailure(tx, seen.id, now)
    })
    await cell.table.fresh(seen.id)
  },
  errorOf: captureError,
}

function capture(job: Job, { id, ownership_epoch }: MachineRow): Promise<CheckpointInfo> {
  const { host, ids } = job.cell
  const checkpoint_id = ids.next()
  return callHost(job, id, 'checkpoint', ownership_epoch, (fence) => host.checkpoint({ ...fence, checkpoint_id, then: 'paused' }))
}

/** No caller waits for a suspend with such a reason, so a failed one is not retried at once. */
const IDLE_REASONS: ReadonlySet<unknown> = new Set(['idle_timeout', 'requested_after_idle', 'disk_wanted'])

/** Unpauses the guest, which an earlier attempt may have left paused. */
export async function wakeAfterEarlier(job: Job, seen: MachineRow): Promise<void> {
  await takeOver(job, seen.id, seen.ownership_epoch)
  await unpause(job, seen, 'unpause-earlier')
}

/** @returns false if the machine is gone; a hibernated workspace needs none */
export async function unpause(job: Job, seen: MachineRow, step: 'unpause-earlier' | 'unpause-undo'): Promise<boolean> {
  if (job.operation.attempt === 0 || isHibernated(seen)) return true
  const machine = await findMachine(job, seen.id)
  if (machine?.epoch !== seen.ownership_epoch) return false
  const excused = ['not_running', 'not_found']
  const runs = await callHostUnless(job, excused, seen.id, step, seen.ownership_epoch, (fence) => job.cell.host.unpause(fence))
  if (runs) job.cell.table.markMachine(seen.id, machine.fence, 'running') // a comparison with the host may have recorded the machine as paused
  return runs
}

/** @param info null: the hibernated workspace already has its checkpoint */
async function commitSuspended(
  job: Job,
  seen: MachineRow,
  info: CheckpointInfo | null,
): Promise<{ row: MachineRow; superseded: string[] }> {
  const { cell, operation } = job
  await failpoint('suspend.S8')
  const now = cell.clock.now()
  const save = async (tx: Tx) => {
    const checkpoint_id = info?.checkpoint_id ?? seen.checkpoint_id
    if (checkpoint_id === null) throw new LostRace('The hibernated workspace')
    if (info === null) await keepForSuspend(tx, operation, checkpoint_id)
    else await insertCheckpoint(tx, cell, operation, info, { kind: 'suspend', label: null, expires_at: null })
    const superseded = await dropSuperseded(tx, seen.id, checkpoint_id)
    const row = await moveWorkspace(tx, seen, 'suspended', now, {
      ownership_epoch: seen.ownership_epoch + 1,
      desired_state: 'suspended',
      checkpoint_id,
      residency: 'resident',
      disk: null,
      grants: null,
      suspend_request: null,
    })
    await forgetFailures(tx, seen.id)
    return { row, superseded }
  }
  // The capacity remains reserved, because the machine uses it until it has ended.
  const progress = seen.grants === null ? {} : { reserved: seen.grants }
  return asAttempt(cell.db, operation, now, save, { step: COMMITTED, progress })
}

/** Stops the paused machine, which must never run again. */
async function giveUpMachine(job: Job, row: MachineRow, checkpoints: string[], disks: (string | null)[]): Promise<void> {
  const { cell, operation } = job
  await failpoint('suspend.S9')
  const epoch = row.ownership_epoch
  await callHost(job, row.id, 'stop', epoch, (fence) => cell.host.stop({ ...fence, machine_epoch: epoch - 1 }))
  await failpoint('suspend.S11')
  await finish(cell.db, operation, cell.clock.now(), { state: 'succeeded', result: { checkpoint_id: row.checkpoint_id } })
  await cell.table.fresh(row.id)
  await dropDisks(job, row.id, epoch, disks)
  if (checkpoints.length === 0) return
  await tidy(job, 'superseded checkpoints', () =>
    callHost(job, row.id, 'drop-checkpoints', epoch, (fence) => cell.host.deleteCheckpoints({ ...fence, names: checkpoints })),
  )
}
