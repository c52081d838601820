import type { Machine } from '../../../contract/internal/host-inventory.ts'
import type { OperationError } from '../../db/column-types.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { WAITS_FOR_CAPTURE } from '../../core/workspaces/operations/store.ts'
import { capturedMemoryMib, insertCheckpoint } from './checkpoint-store.ts'
import { captureInto, refuseSmallerMemory, savedCheckpoint } from './copying.ts'
import { captureOrStartError, operationError, Refused } from './errors.ts'
import { CAPTURED, commitServed, shareCapture } from './fork-joined.ts'
import { callHost, claimedRow, prepareCapture, takeOver, tidy, type Job, type OperationKind } from './job.ts'
import { clearEarlier, stopAttempt } from './open.ts'
import { restoreRequest, startRequest } from './requests.ts'
import { COMMITTED, commitRunning, completeEarlier, completeRunning, howItBegan, type RunningEnd } from './running.ts'
import { requeue } from './queue-store.ts'
import { asAttempt, endAttempt, freeKey, moveWorkspace, releaseHold } from './store.ts'
import type { Tx } from '../../db/reader.ts'
import { readMachineRow, type MachineRow, LostRace } from '../machines/machine-row-store.ts'
import { unpause } from './suspend.ts'

const END: RunningEnd = { event: 'forked', before_commit: 'fork.F6', before_connect: 'fork.F7', before_success: 'fork.F8', result: {} }

export const fork: OperationKind = {
  async drive(job) {
    const { step, attempt } = job.operation
    if (step === COMMITTED) return completeEarlier(job, END)
    const seen = step === CAPTURED ? await claimedRow(job) : await capture(job, false)
    if (step === CAPTURED && attempt > 1) await clearEarlier(job, seen)
    const machine = await restoreTarget(job, seen)
    await completeRunning(job, await commitRunning(job, seen, machine, END, await howItBegan(job, seen)), machine, END)
  },
  async undo(job, error) {
    const target = await readMachineRow(job.cell.db, job.operation.workspace_id)
    if (target.checkpoint_id === null) await undoUncaptured(job, target, error)
    else await undoCaptured(job, target, error)
    await job.cell.table.fresh(target.id)
  },
  errorOf: captureOrStartError,
}

/** Captures before the fork waits for capacity: during that wait, a held source could neither be used nor release its capacity. */
export const preCapture: OperationKind = { ...fork, drive: async (job) => void (await capture(job, true)) }

async function capture(job: Job, then_waits: boolean): Promise<MachineRow> {
  const { cell, operation } = job
  const [source, target] = await Promise.all([readMachineRow(cell.db, sourceOf(job)), claimedRow(job)])
  if (operation.attempt > 1 || operation.step === WAITS_FOR_CAPTURE) await wakeAfterEarlier(job, source, target)
  const memory_mib = await memoryOf(job, source)
  refuseSmallerMemory(target, memory_mib, 'The fork is smaller than the memory that it would hold')
  await failpoint('fork.F2')
  await prepareCapture(job, source.id)
  await failpoint('fork.F3')
  const info = isBlank(source) ? null : await captureInto(job, 'capture', source, { id: target.id, epoch: target.ownership_epoch + 1 })
  const served = await shareCapture(job, source, info, memory_mib)
  await failpoint('fork.F4')
  const now = cell.clock.now()
  const save = async (tx: Tx) => {
    if (info !== null) await insertCheckpoint(tx, cell, operation, info, { kind: 'fork', label: null, expires_at: null })
    await commitServed(tx, cell, served, now)
    await releaseHold(tx, operation, source.id) // forks that joined after the copy get the source next
    if (then_waits) await requeue(tx, operation)
    return moveWorkspace(tx, target, 'captured', now, { checkpoint_id: info?.checkpoint_id ?? null })
  }
  const captured = await asAttempt(cell.db, operation, now, save, { step: CAPTURED, progress: operation.progress })
  // Admission of the source reopens once this row is read. The target does not wait for the read.
  void cell.table.fresh(source.id).catch(() => undefined) // LISTEN also reports the row, and retries after a failure
  return captured
}

/** Whether the source was reset while it was suspended. Source and copy are blank in this case. */
function isBlank(source: MachineRow): boolean {
  return source.observed_state === 'suspended' && source.checkpoint_id === null
}

/** An earlier attempt may have left a capture without a row, and the source paused. The source is unpaused before the next capture. */
async function wakeAfterEarlier(job: Job, source: MachineRow, target: MachineRow): Promise<void> {
  await takeOver(job, source.id, source.ownership_epoch)
  await takeOver(job, target.id, target.ownership_epoch + 1)
  const runs = !isBlank(source) && savedCheckpoint(source) === null
  if (runs && !(await unpause(job, source, 'unpause-earlier'))) throw new Refused(LOST_SOURCE)
}

const LOST_SOURCE = operationError('checkpoint_failed', 'The source is not running any more', { reason: 'not_running' })

async function memoryOf(job: Job, source: MachineRow): Promise<number> {
  const saved = savedCheckpoint(source)
  return saved === null ? (source.grants?.memory_mib ?? 0) : capturedMemoryMib(job.cell.db, saved)
}

async function restoreTarget(job: Job, seen: MachineRow): Promise<Machine> {
  const { checkpoint_id } = seen
  const epoch = seen.ownership_epoch + 1
  await failpoint('fork.F5')
  if (checkpoint_id === null) return callHost(job, seen.id, 'start', epoch, (fence) => job.cell.host.start(startRequest(fence, seen, null)))
  return callHost(job, seen.id, 'restore', epoch, (fence) =>
    job.cell.host.restore(restoreRequest(fence, seen, checkpoint_id, { renew_identity: true })),
  )
}

function sourceOf(job: Job): string {
  const { source_workspace_id } = job.operation
  if (source_workspace_id === null) throw new LostRace('The source of the fork')
  return source_workspace_id
}

/** The target retains its capture: an open of the target restores it. */
async function undoCaptured(job: Job, target: MachineRow, error: OperationError): Promise<void> {
  await stopAttempt(job, target, 'stop-undo')
  const now = job.cell.clock.now()
  await endAttempt(job.cell.db, job.operation, now, { state: 'failed', error }, async (tx) => {
    await moveWorkspace(tx, target, 'fork_failed', now, { pending_reason: null })
  })
}

/** The target never had content. An open must not start a blank machine in place of a copy. */
async function undoUncaptured(job: Job, target: MachineRow, error: OperationError): Promise<void> {
  const { cell, operation } = job
  const source = await readMachineRow(cell.db, sourceOf(job))
  if (operation.attempt > 0) {
    if (!isBlank(source) && savedCheckpoint(source) === null) await unpause(job, source, 'unpause-undo')
    await tidy(job, 'the files of a failed fork', () =>
      callHost(job, target.id, 'discard', target.ownership_epoch + 1, (fence) => cell.host.deleteSubject(fence)).then(() => undefined),
    )
  }
  const now = cell.clock.now()
  await endAttempt(cell.db, operation, now, { state: 'failed', error }, async (tx) => {
    await moveWorkspace(tx, target, 'fork_lost', now, {
      deleted_at: now,
      desired_state: 'deleted',
      ended_reason: 'fork_failed',
      pending_reason: null,
    })
    await freeKey(tx, target)
  })
  await cell.table.fresh(source.id)
}
