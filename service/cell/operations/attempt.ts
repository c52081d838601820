import type { OperationError, Resources } from '../../db/column-types.ts'
import { HostFailure } from '../host/hostd.ts'
import { begin, type Begun, type KnownKind } from './begin.ts'
import { noRoom, waitsUntil } from './admission.ts'
import { INTERRUPTED, operationError, Refused } from './errors.ts'
import type { Job, OperationKind } from './job.ts'
import { recordNoCapacity } from './queue-store.ts'
import { COMMITTED } from './running.ts'
import { finish, readStep } from './store.ts'
import { readMachineRow, type MachineRow, LostRace } from '../machines/machine-row-store.ts'

/** After this many attempts that ended in a crash or an unexpected error, the operation is rolled back. */
const ATTEMPTS_MAX = 6

/** Rejects if the operation is not the cause of the failure: the runner attempts it again. */
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

/** @param read the row as last read; a row that has changed since is read again. @returns undefined if nothing is left to do */
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
      job.cell.room.requestReconcile() // the host may have a machine without a row
      job.cell.room.refused(job.operation.id, job.operation.progress.reserved?.memory_mib ?? 0)
      await recordNoCapacity(job.cell.db, job.operation)
    }
    if (error === undefined || error === 'again' || !(await mayUndo(job, kind, true))) throw cause
    job.cell.log.warn({ operation_id: job.operation.id, kind: job.operation.kind, code: error.code, err: cause }, 'the operation failed')
    await kind.undo?.(job, error)
  }
}

/** @returns the error for the caller; 'again' to repeat the attempt; undefined if the service or its database is the cause */
function callersError({ cell, operation }: Job, cause: unknown, kind: OperationKind): OperationError | 'again' | undefined {
  if (cause instanceof Refused) return cause.error
  if (!(cause instanceof HostFailure)) return undefined
  if (cause.code !== 'no_capacity') return kind.errorOf(cause)
  // The operation has reserved capacity, so the machine that still occupies it is about to end. The attempt is repeated until the
  // deadline.
  const now = cell.clock.now()
  return now < waitsUntil(operation.created_at) ? 'again' : noRoom(operation.progress.reserved ?? null, operation.created_at, now)
}

function isWornOut({ operation }: Job): boolean {
  return operation.attempt - (operation.progress.no_room ?? 0) > ATTEMPTS_MAX
}

/** A committed operation is never undone, however many attempts it needs. */
async function mayUndo(job: Job, kind: OperationKind, wanted: boolean): Promise<boolean> {
  return wanted && kind.undo !== null && (await readStep(job.cell.db, job.operation)) !== COMMITTED
}

/** Fails the operation, unless it has ended or has a later attempt. @param error if absent, derived from the workspace's state */
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
