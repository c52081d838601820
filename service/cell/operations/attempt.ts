import type { OperationError, Resources } from '../../db/schema.ts'
import { HostFailure } from '../links/hostd.ts'
import { begin, type Begun, type KnownKind } from './begin.ts'
import { noRoom, waitsUntil } from './admission.ts'
import { INTERRUPTED, operationError, Refused } from './errors.ts'
import type { Job, OperationKind } from './job.ts'
import { noteNoRoom } from './queue-store.ts'
import { COMMITTED } from './running.ts'
import { finish, LostRace, readMachineRow, readStep, type MachineRow } from './store.ts'

/** An operation that falls over this often, by a crash each time or by a mistake of ours, is rolled back. */
const ATTEMPTS_MAX = 6

/** Carries a claimed operation on. Rejects where the attempt says nothing about the operation: it stays open and is taken up again. */
export async function attempt(job: Job, { kind }: KnownKind): Promise<'done' | 'lost'> {
  try {
    if (await mayUndo(job, kind, isWornOut(job))) await kind.undo?.(job, INTERRUPTED)
    else await drive(job, kind)
    return 'done'
  } catch (error) {
    if (!(error instanceof LostRace)) throw error
    await abandon(job)
    return 'lost'
  }
}

/**
 * Claims an operation. undefined: there is nothing to do, or no longer.
 * @param read its workspace as it was when the runner looked. Where it has moved on since, it is read again.
 */
export async function take(
  job: Job,
  known: KnownKind,
  reserved: Resources | null,
  read: MachineRow | undefined,
): Promise<Begun | undefined> {
  try {
    return await begin(job.cell, job.operation, known, reserved, read)
  } catch (error) {
    if (!(error instanceof LostRace)) throw error
    if (read !== undefined) return take(job, known, reserved, undefined)
    await abandon(job)
    return undefined
  }
}

/** Ends an operation that never began. */
export async function refuse(job: Job, kind: OperationKind, error: OperationError): Promise<void> {
  try {
    await kind.undo?.(job, error)
  } catch (cause) {
    if (!(cause instanceof LostRace)) throw cause
    await abandon(job, error)
  }
}

async function drive(job: Job, kind: OperationKind): Promise<void> {
  try {
    await kind.drive(job)
  } catch (cause) {
    const error = callersError(job, cause, kind)
    if (error === 'again') {
      job.cell.room.doubt() // the host may have a machine that the rows do not count
      job.cell.room.refused(job.operation.id, job.operation.progress.reserved?.memory_mib ?? 0)
      await noteNoRoom(job.cell.db, job.operation)
    }
    if (error === undefined || error === 'again' || !(await mayUndo(job, kind, true))) throw cause
    job.cell.log.warn({ operation_id: job.operation.id, kind: job.operation.kind, code: error.code, err: cause }, 'the operation failed')
    await kind.undo?.(job, error)
  }
}

/** The world's refusals have a meaning for the caller; anything else is ours or the database's. */
function callersError({ cell, operation }: Job, cause: unknown, kind: OperationKind): OperationError | 'again' | undefined {
  if (cause instanceof Refused) return cause.error
  if (!(cause instanceof HostFailure)) return undefined
  if (cause.code !== 'no_capacity') return kind.errorOf(cause)
  // Room was counted for it: what takes it on the host still is about to go.
  const now = cell.clock.now()
  return now < waitsUntil(operation.created_at) ? 'again' : noRoom(operation.progress.reserved ?? null, operation.created_at, now)
}

function isWornOut({ operation }: Job): boolean {
  return operation.attempt - (operation.progress.no_room ?? 0) > ATTEMPTS_MAX
}

/** Once it is committed there is only forward, however often that takes. */
async function mayUndo(job: Job, kind: OperationKind, wanted: boolean): Promise<boolean> {
  return wanted && kind.undo !== null && (await readStep(job.cell.db, job.operation)) !== COMMITTED
}

/**
 * The attempt has lost. Where the operation itself is over or somebody else's nothing is written; where it is still ours, its
 * workspace is no longer what the operation was for, and only the operation is ended.
 * @param error absent: what became of the workspace says it.
 */
export async function abandon(job: Job, error?: OperationError): Promise<void> {
  const { cell, operation } = job
  const now = cell.clock.now()
  try {
    await finish(cell.db, operation, now, { state: 'failed', error: error ?? (await overtaken(job)) })
  } catch (cause) {
    if (!(cause instanceof LostRace)) throw cause
  }
}

async function overtaken({ cell, operation }: Job): Promise<OperationError> {
  const { observed_state } = await readMachineRow(cell.db, operation.workspace_id)
  const what = observed_state === 'failed' ? 'failed' : 'changed'
  return operationError('interrupted', `The workspace ${what} before the operation was done`)
}
