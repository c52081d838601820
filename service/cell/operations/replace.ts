import { LIMITS } from '../../../contract/limits.ts'
import type { MachineEvent } from '../../../contract/states/machine.ts'
import type { CheckpointInfo } from '../../../contract/internal/host-inventory.ts'
import type { OperationError, StartupState } from '../../db/column-types.ts'
import { failpoint, type FailpointName } from '../../lib/failpoints.ts'
import { HostFailure } from '../host/hostd.ts'
import { insertCheckpoint, keepForRecovery } from './checkpoint-store.ts'
import { dropSuperseded } from '../machines/superseded-store.ts'
import { captureOrStartError } from './errors.ts'
import { callHost, claimedRow, prepareCapture, takeOver, type Job, type OperationKind } from './job.ts'
import { COMMITTED, completeEarlier, dropDisks, type RunningEnd } from './running.ts'
import { asAttempt, endAttempt, finish, moveWorkspace, type Progress } from './store.ts'
import type { Tx } from '../../db/reader.ts'
import { readMachineRow, isHibernated, type MachineRow } from '../machines/machine-row-store.ts'
import { unpause, wakeAfterEarlier } from './suspend.ts'

/** The new content is committed, and the old machine still has to be replaced. */
const REPLACED = 'replaced'

/** The workspace does not run: only `finishing` is left. */
const REPLACED_ASLEEP = 'replaced_asleep'

const DAY_MS = 24 * 3600_000

export interface Content {
  checkpoint_id: string
  /** Set if the checkpoint has no row yet. */
  made?: CheckpointInfo
  made_as?: 'suspend' | 'fork'
  /** Earlier checkpoints are superseded: repeated adoptions would fill the pool with them. */
  supersedes?: true
  /** Set if the memory comes from another workspace. */
  startup?: StartupState
}

export interface Replacement {
  replaced: Extract<MachineEvent, 'reset' | 'restored'>
  /** @returns null if the new content is only the template */
  contentOf(job: Job, seen: MachineRow): Promise<Content | null>
  committing?(tx: Tx, job: Job): Promise<void>
  /** Unpauses other captured machines after a failure before the commit. */
  undone?(job: Job): Promise<void>
  /** Runs again after an interruption. */
  finishing?(job: Job): Promise<void>
  start(job: Job, seen: MachineRow, end: RunningEnd): Promise<void>
  start_failed: Extract<MachineEvent, 'start_failed' | 'resume_undone'>
  desired_after_failure: 'running' | 'suspended'
  end: Omit<RunningEnd, 'result'>
  points: Record<'close' | 'capture' | 'commit' | 'stop' | 'start', FailpointName>
}

/** The old content becomes a recovery checkpoint, which can be restored for seven days. */
export function replacement(kind: Replacement): OperationKind {
  return {
    async drive(job) {
      if (job.operation.step === COMMITTED) return completeEarlier(job, endOf(job, kind))
      if (job.operation.step === REPLACED_ASLEEP) return finishAsleep(job, kind, await claimedRow(job))
      const seen = job.operation.step === REPLACED ? await claimedRow(job) : await replace(job, kind)
      if (seen !== null) await startNew(job, kind, seen)
    },
    async undo(job, error) {
      const seen = await readMachineRow(job.cell.db, job.operation.workspace_id)
      if (job.operation.step === REPLACED || job.operation.step === REPLACED_ASLEEP) await undoStart(job, kind, seen, error)
      else await undoCapture(job, kind, seen, error)
      await job.cell.table.fresh(seen.id)
    },
    errorOf: captureOrStartError,
  }
}

function endOf({ operation }: Job, kind: Replacement): RunningEnd {
  const { finishing } = kind
  const last = finishing === undefined ? {} : { finishing }
  return { ...kind.end, ...last, result: { recovery_checkpoint_id: operation.progress.recovery_checkpoint_id ?? null } }
}

/** @returns null if the workspace is suspended: it remains so, and the operation has ended */
async function replace(job: Job, kind: Replacement): Promise<MachineRow | null> {
  const { cell, operation } = job
  const seen = await claimedRow(job)
  const runs = seen.observed_state === 'running'
  const failed = seen.observed_state === 'failed'
  if (operation.attempt > 1) await wakeAfterEarlier(job, seen)
  await failpoint(kind.points.close)
  await prepareCapture(job, seen.id)
  const content = await kind.contentOf(job, seen)
  await failpoint(kind.points.capture)
  const captured = failed ? await captureDisk(job, seen) : runs && !isHibernated(seen) ? await capture(job, seen, content) : null
  await failpoint(kind.points.commit)
  const row = runs ? await commitReplaced(job, kind, seen, content, captured) : await commitAsleep(job, kind, seen, content, captured)
  await cell.table.fresh(seen.id)
  if (failed) await dropDisks(job, seen.id, seen.ownership_epoch + 1, [seen.disk])
  return row
}

function capture(job: Job, seen: MachineRow, content: Content | null): Promise<CheckpointInfo> {
  const checkpoint_id = job.cell.ids.next()
  const blank = content === null ? { then_blank: true } : {}
  return callHost(job, seen.id, 'capture', seen.ownership_epoch, (fence) =>
    job.cell.host.checkpoint({ ...fence, checkpoint_id, then: 'paused', ...blank }),
  )
}

/** @returns null if the host has no disk of the workspace */
async function captureDisk(job: Job, seen: MachineRow): Promise<CheckpointInfo | null> {
  const { disk } = seen
  if (disk === null) return null
  const { host, ids } = job.cell
  const layers = seen.disk_layout === 'legacy' ? [] : seen.layers
  const what = { checkpoint_id: ids.next(), then: 'running', disk_only: true, from_disk: disk, layers, resources: seen.ceilings } as const
  await callHost(job, seen.id, 'stop-dead', seen.ownership_epoch, (fence) => host.stop(fence))
  try {
    return await callHost(job, seen.id, 'capture', seen.ownership_epoch, (fence) => host.checkpoint({ ...fence, ...what }))
  } catch (error) {
    if (error instanceof HostFailure && error.code === 'not_found') return null
    throw error
  }
}

/** @param captured null: the hibernated workspace's checkpoint becomes the recovery checkpoint */
async function commitReplaced(
  job: Job,
  kind: Replacement,
  seen: MachineRow,
  content: Content | null,
  captured: CheckpointInfo | null,
): Promise<MachineRow> {
  const { cell, operation } = job
  const now = cell.clock.now()
  const recovery_checkpoint_id = captured?.checkpoint_id ?? seen.checkpoint_id
  const { reserved: _taken, ...begun } = operation.progress // reserved for a hibernated workspace; its grants count from here on
  const progress: Progress = { ...begun, recovery_checkpoint_id, old_disk: seen.disk }
  const save = (tx: Tx) => moveToContent(tx, job, kind, seen, content, { captured, recovery_checkpoint_id }, now)
  const row = await asAttempt(cell.db, operation, now, save, { step: REPLACED, progress })
  job.operation = { ...operation, step: REPLACED, progress }
  return row
}

/** Makes no capture of a suspended workspace: its content is a checkpoint already. @param captured the disk of a failed workspace */
async function commitAsleep(
  job: Job,
  kind: Replacement,
  seen: MachineRow,
  content: Content | null,
  captured: CheckpointInfo | null,
): Promise<null> {
  const { cell, operation } = job
  const now = cell.clock.now()
  const recovery_checkpoint_id = captured?.checkpoint_id ?? seen.checkpoint_id
  const save = (tx: Tx) => moveToContent(tx, job, kind, seen, content, { captured, recovery_checkpoint_id }, now)
  if (kind.finishing === undefined) {
    await endAttempt(
      cell.db,
      operation,
      now,
      { state: 'succeeded', result: asleepResult(recovery_checkpoint_id, seen.ownership_epoch + 1) },
      async (tx) => void (await save(tx)),
    )
    return null
  }
  const progress: Progress = { ...operation.progress, recovery_checkpoint_id }
  const row = await asAttempt(cell.db, operation, now, save, { step: REPLACED_ASLEEP, progress })
  job.operation = { ...operation, step: REPLACED_ASLEEP, progress }
  await finishAsleep(job, kind, row)
  return null
}

async function finishAsleep(job: Job, kind: Replacement, row: MachineRow): Promise<void> {
  const { cell, operation } = job
  await kind.finishing?.(job)
  const result = asleepResult(operation.progress.recovery_checkpoint_id ?? null, row.ownership_epoch)
  await finish(cell.db, operation, cell.clock.now(), { state: 'succeeded', result })
  await cell.table.fresh(row.id)
}

function asleepResult(recovery_checkpoint_id: string | null, ownership_epoch: number): Record<string, unknown> {
  return { recovery_checkpoint_id, ownership_epoch }
}

interface Recovery {
  /** null: the checkpoint exists already. */
  captured: CheckpointInfo | null
  recovery_checkpoint_id: string | null
}

async function moveToContent(
  tx: Tx,
  job: Job,
  kind: Replacement,
  seen: MachineRow,
  content: Content | null,
  { captured, recovery_checkpoint_id }: Recovery,
  now: Date,
): Promise<MachineRow> {
  const { cell, operation } = job
  await kind.committing?.(tx, job)
  if (captured !== null) await insertCheckpoint(tx, cell, operation, captured, { kind: 'recovery', label: null, expires_at: expiry(now) })
  else if (recovery_checkpoint_id !== null) await keepForRecovery(tx, recovery_checkpoint_id, expiry(now))
  if (content?.made) {
    await insertCheckpoint(tx, cell, operation, content.made, { kind: content.made_as ?? 'suspend', label: null, expires_at: null })
    if (content.supersedes) await dropSuperseded(tx, seen.id, content.made.checkpoint_id)
  }
  const ownership_epoch = seen.ownership_epoch + 1
  return moveWorkspace(tx, seen, kind.replaced, now, {
    ownership_epoch,
    checkpoint_id: content?.checkpoint_id ?? null,
    residency: 'resident',
    disk: null,
    suspend_request: null,
    ...(content?.startup === undefined ? {} : { startup: content.startup }),
  })
}

function expiry(now: Date): Date {
  return new Date(now.getTime() + LIMITS.workspace.recovery_checkpoint_days * DAY_MS)
}

/** Stops the paused machine, which must never run again. Its disk is deleted once the workspace has the new machine. */
async function startNew(job: Job, kind: Replacement, seen: MachineRow): Promise<void> {
  const { cell, operation } = job
  const epoch = seen.ownership_epoch
  if (operation.attempt > 1) await takeOver(job, seen.id, epoch)
  await failpoint(kind.points.stop)
  await callHost(job, seen.id, 'stop-old', epoch, (fence) => cell.host.stop(fence))
  await failpoint(kind.points.start)
  await kind.start(job, seen, endOf(job, kind))
  await dropDisks(job, seen.id, epoch, [operation.progress.old_disk ?? null])
}

async function undoCapture(job: Job, kind: Replacement, seen: MachineRow, error: OperationError): Promise<void> {
  const { cell, operation } = job
  if (operation.attempt > 0) await kind.undone?.(job)
  const alive = seen.observed_state !== 'running' || (await unpause(job, seen, 'unpause-undo'))
  const now = cell.clock.now()
  await endAttempt(cell.db, operation, now, { state: 'failed', error }, async (tx) => {
    if (!alive) await moveWorkspace(tx, seen, 'lost', now, { grants: null })
    // The caller of a restore wants the workspace to run, so an open can still start it.
    if (seen.observed_state === 'failed') await moveWorkspace(tx, seen, 'start_failed', now, { desired_state: 'running' })
  })
}

/** An open or a resume retries the new content. A restore of the recovery checkpoint brings back the old content. */
async function undoStart(job: Job, kind: Replacement, seen: MachineRow, error: OperationError): Promise<void> {
  const { cell, operation } = job
  await callHost(job, seen.id, 'stop-undo', seen.ownership_epoch, (fence) => cell.host.stop(fence))
  const details = { ...error.details, recovery_checkpoint_id: operation.progress.recovery_checkpoint_id }
  const now = cell.clock.now()
  await endAttempt(cell.db, operation, now, { state: 'failed', error: { ...error, details } }, async (tx) => {
    await moveWorkspace(tx, seen, kind.start_failed, now, { desired_state: kind.desired_after_failure, pending_reason: null, grants: null })
  })
}
