import type { OperationError } from '../../db/schema.ts'
import { failpoint } from '../../lib/failpoints.ts'
import type { CheckpointInfo, Machine } from '../links/hostd.ts'
import { capturedMemoryMib, insertCheckpoint } from './checkpoint-store.ts'
import { captureError, operationError, Refused, startError } from './errors.ts'
import { ask, takeOver, tidy, type Job, type OperationKind } from './job.ts'
import { clearEarlier, stopAttempt } from './open.ts'
import { restoreRequest } from './requests.ts'
import { COMMITTED, commitRunning, completeRunning, type RunningEnd } from './running.ts'
import { asAttempt, finish, freeKey, LostRace, moveWorkspace, readMachineRow, releaseHold, setStep, type MachineRow } from './store.ts'
import { unpause } from './suspend.ts'

const END: RunningEnd = { event: 'forked', before_commit: 'fork.F6', before_connect: 'fork.F7', before_success: 'fork.F8', result: {} }

/** The target owns a capture of its source; the source is free again. */
const CAPTURED = 'captured'
const DRAIN_MS = 1000

/** Captures the source straight into the target, lets the source go, and restores the target under an identity of its own. */
export const fork: OperationKind = {
  async drive(job) {
    const { cell, operation } = job
    const { workspace_id: target_id, step } = operation
    if (step === COMMITTED) return completeRunning(job, target_id, END)
    if (step !== CAPTURED) await capture(job)
    const seen = await readMachineRow(cell.db, target_id)
    if (step === CAPTURED && operation.attempt > 1) await clearEarlier(job, seen)
    const machine = await restoreTarget(job, seen)
    await commitRunning(job, seen, machine, END)
    await completeRunning(job, target_id, END, machine)
  },
  async undo(job, error) {
    const target = await readMachineRow(job.cell.db, job.operation.workspace_id)
    if (target.checkpoint_id === null) await undoUncaptured(job, target, error)
    else await undoCaptured(job, target, error)
    await job.cell.table.fresh(target.id)
  },
  errorOf: (failure) => (CAPTURE_FAILURES.has(failure.code) ? captureError(failure) : startError(failure)),
}

const CAPTURE_FAILURES: ReadonlySet<string> = new Set(['checkpoint_failed', 'not_running'])

async function capture(job: Job): Promise<void> {
  const { cell, operation } = job
  const source = await readMachineRow(cell.db, sourceOf(job))
  const target = await readMachineRow(cell.db, operation.workspace_id)
  if (operation.attempt > 1) await wakeAfterEarlier(job, source, target)
  await refuseSmaller(job, source, target)
  await failpoint('fork.F2')
  await cell.table.fresh(source.id)
  await cell.table.activity.drained(source.id, DRAIN_MS)
  await failpoint('fork.F3')
  const info = await captureInto(job, source, target)
  await failpoint('fork.F4')
  const now = cell.clock.now()
  await asAttempt(cell.db, operation, now, async (tx) => {
    await insertCheckpoint(tx, cell, operation, 'fork', info)
    await moveWorkspace(tx, target, 'captured', now, { checkpoint_id: info.checkpoint_id })
    await releaseHold(tx, operation, source.id)
    await setStep(tx, operation, CAPTURED, operation.progress)
  })
  await cell.table.fresh(source.id)
}

function captureInto(job: Job, source: MachineRow, target: MachineRow): Promise<CheckpointInfo> {
  const { cell, operation } = job
  const checkpoint_id = cell.ids.next()
  const saved = savedCheckpoint(source)
  if (saved !== null) {
    const names = { source_workspace_id: source.id, source_checkpoint_id: saved, checkpoint_id }
    return ask(job, target.id, 'capture', target.ownership_epoch + 1, (fence) => cell.host.cloneCheckpoint({ ...fence, ...names }))
  }
  const into = { into_workspace_id: target.id, into_fence: operation.fence, checkpoint_id, then: 'running' as const }
  return ask(job, source.id, 'capture', source.ownership_epoch, (fence) => cell.host.checkpoint({ ...fence, ...into }))
}

/** A suspended source is its checkpoint; a running one has a disk in use. */
function savedCheckpoint(source: MachineRow): string | null {
  return source.disk === null ? source.checkpoint_id : null
}

/** The source may stand still since an earlier attempt; and what that one captured is without an owner. */
async function wakeAfterEarlier(job: Job, source: MachineRow, target: MachineRow): Promise<void> {
  await takeOver(job, source.id, source.ownership_epoch)
  await takeOver(job, target.id, target.ownership_epoch + 1)
  if (savedCheckpoint(source) === null && !(await unpause(job, source, 'unpause-earlier'))) throw new Refused(LOST_SOURCE)
}

const LOST_SOURCE = operationError('checkpoint_failed', 'The source is not running any more', { reason: 'not_running' })

/** DECISIONS, "Workspaces": what the memory holds does not fit into less. */
async function refuseSmaller(job: Job, source: MachineRow, target: MachineRow): Promise<void> {
  const saved = savedCheckpoint(source)
  const memory_mib = saved === null ? (source.grants?.memory_mib ?? 0) : await capturedMemoryMib(job.cell.db, saved)
  if (target.ceilings.memory_mib >= memory_mib) return
  const details = { reason: 'below_captured_memory', required: { memory_mib }, ceiling: { memory_mib: target.ceilings.memory_mib } }
  throw new Refused(operationError('invalid_resources', 'The fork is smaller than the memory that it would hold', details))
}

async function restoreTarget(job: Job, seen: MachineRow): Promise<Machine> {
  const { checkpoint_id } = seen
  if (checkpoint_id === null) throw new LostRace('The fork')
  await failpoint('fork.F5')
  return ask(job, seen.id, 'restore', seen.ownership_epoch + 1, (fence) =>
    job.cell.host.restore(restoreRequest(fence, seen, checkpoint_id, { renew_identity: true })),
  )
}

function sourceOf(job: Job): string {
  const { source_workspace_id } = job.operation
  if (source_workspace_id === null) throw new LostRace('The source of the fork')
  return source_workspace_id
}

/** Captured: the target keeps its capture, and an open restores it. */
async function undoCaptured(job: Job, target: MachineRow, error: OperationError): Promise<void> {
  await stopAttempt(job, target, 'stop-undo')
  const now = job.cell.clock.now()
  await asAttempt(job.cell.db, job.operation, now, async (tx) => {
    await moveWorkspace(tx, target, 'fork_failed', now, { pending_reason: null })
    await finish(tx, job.operation, now, { state: 'failed', error })
  })
}

/** Not captured: the target never was anything. It goes, and its key with it: never a blank machine in place of a copy. */
async function undoUncaptured(job: Job, target: MachineRow, error: OperationError): Promise<void> {
  const { cell, operation } = job
  const source = await readMachineRow(cell.db, sourceOf(job))
  if (operation.attempt > 0) {
    if (savedCheckpoint(source) === null) await unpause(job, source, 'unpause-undo')
    await tidy(job, 'the files of a failed fork', () =>
      ask(job, target.id, 'discard', target.ownership_epoch + 1, (fence) => cell.host.deleteWorkspace(fence)),
    )
  }
  const now = cell.clock.now()
  await asAttempt(cell.db, operation, now, async (tx) => {
    await moveWorkspace(tx, target, 'fork_lost', now, {
      deleted_at: now,
      desired_state: 'deleted',
      ended_reason: 'fork_failed',
      pending_reason: null,
    })
    await freeKey(tx, target)
    await finish(tx, operation, now, { state: 'failed', error })
  })
  await cell.table.fresh(source.id)
}
