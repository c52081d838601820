import type { OperationError, Resources } from '../../db/column-types.ts'
import { LIMITS } from '../../../contract/limits.ts'
import { preCaptureOf, knownKind, type Begun, type KnownKind } from './begin.ts'
import { admit, noRoom, pending } from './admission.ts'
import { abandon, refuse, take } from './attempt.ts'
import { operationError } from './errors.ts'
import type { CellContext, Job } from './job.ts'
import { listOpen, markPending, updatePendingReason, type OtherOperation, type Queued } from './queue-store.ts'
import type { RunnerOptions } from './runner.ts'
import { launch, run, scheduleRetry, type Signals } from './runner-jobs.ts'
import { finish, type OpenOperation } from './store.ts'
import { LostRace } from '../machines/machine-row-store.ts'
import { listCapturing } from './builds/store.ts'
import { isBuild, workOnBuild } from './builds/work.ts'
import { volumeWork, workOnVolume } from './volumes/work.ts'
import type { ShortResource } from '../capacity/allocator.ts'
import { wantOf, type OperationCapacityRequest } from './capacity-requests.ts'
import { forgetDone, forgetLook, freePermits, inFairShares, isWaiting, mayBegin, type PermitRequest, type State } from './runner-state.ts'

/** One pass over all open operations: begins those that may begin, oldest first, and those that need capacity by fair share. */
export async function runPass(options: RunnerOptions, state: State, signals: Signals): Promise<void> {
  const { cell } = options
  forgetLook(state)
  // Read before the rows: a workspace that is being parked or woken may have another row afterwards.
  const moving = new Set(cell.parking.inTransition())
  cell.room.markStale()
  const { of_workspaces: all, others } = await listOpen(cell.db, cell.cell_id)
  forgetDone(state, [...all.map(({ operation }) => operation), ...others])
  await beginOthers(options, state, others, signals)
  const open = all.filter(({ operation }) => !state.jobs.has(operation.id) && !isWaiting(state, operation.id))
  const ready = open.filter(({ operation }) => !waitsForMove(cell, operation, moving, signals.wake))
  for (const { queued, want } of inFairOrder(options, state, ready)) {
    if (options.signal.aborted || state.draining) return
    try {
      await beginOne(options, state, queued, want, signals)
    } catch (error) {
      scheduleRetry(options, state, queued.operation, error)
    }
  }
}

interface ScheduledOperation {
  queued: Queued
  /** null: the operation needs no capacity. */
  want: OperationCapacityRequest | null
}

/**
 * Orders requests for capacity by fair share among the positions that they occupy. Other operations do not move. Operations without a
 * permit wait.
 */
function inFairOrder(options: RunnerOptions, state: State, open: Queued[]): ScheduledOperation[] {
  const placed = open.filter((queued) => {
    const place = placeOf(queued)
    return place === undefined || mayBegin(options, state, place)
  })
  if (placed.length < open.length) state.left_some = true
  const turns = inFairShares(state, placed, placeOf).map((queued): ScheduledOperation => ({
    queued,
    want: wantOf(knownKind(queued.operation), queued),
  }))
  const owners = new Map(turns.flatMap((turn) => (turn.want === null ? [] : [[turn.want.id, turn] as const])))
  const asking = [...state.ahead.values(), ...turns.flatMap(({ want }) => (want === null ? [] : [want]))]
  // Without a free permit nothing is reserved for operations: they could not use the capacity.
  const ordered = options.cell.room.setQueue(asking, freePermits(options, state, 'start'))
  const next = ordered.filter(({ id }) => owners.has(id)).values()
  return turns.map((turn) => (turn.want === null ? turn : (owners.get(next.next().value?.id ?? '') ?? turn)))
}

function placeOf({ operation, row }: Queued): PermitRequest | undefined {
  const known = knownKind(operation)
  return known && { group: known.group, organization_id: row.organization_id }
}

/** Waits while the workspace is parked or woken. The wait is short: no transition begins while an operation holds the workspace. */
function waitsForMove(cell: CellContext, operation: OpenOperation, moving: ReadonlySet<string>, wake: () => void): boolean {
  const moved = [operation.workspace_id, operation.source_workspace_id].filter((id) => id !== null && moving.has(id))
  for (const id of moved) if (id !== null) void cell.parking.transitionEnded(id).then(wake)
  return moved.length > 0
}

async function beginOne(
  options: RunnerOptions,
  state: State,
  { operation, row }: Queued,
  want: OperationCapacityRequest | null,
  signals: Signals,
): Promise<void> {
  const { room } = options.cell
  const known = knownKind(operation)
  const job = jobOf(options, operation)
  if (known === undefined) return abandon(job, operationError('internal_error', 'This cell does not know the operation'))
  const { organization_id } = row
  if (!mayBegin(options, state, { group: known.group, organization_id })) {
    state.left_some = true
    if (want !== null) room.withdraw(want.id)
    return
  }
  const begin = async (known: KnownKind, reserved: Resources | null): Promise<Begun | undefined> => {
    const begun = await take(job, known, reserved, row)
    if (begun === undefined) options.leftovers()
    else launch(options, state, { ...job, ...begun }, { known, organization_id }, signals)
    return begun
  }
  if (want === null) await begin(known, null)
  else await beginWithRoom(options, state, job, known, want, begin, signals)
}

/** Begins the operation if it gets capacity. Otherwise the operation waits, and the evictor may free capacity for it. */
async function beginWithRoom(
  options: RunnerOptions,
  state: State,
  job: Job,
  known: KnownKind,
  want: OperationCapacityRequest,
  begin: (known: KnownKind, reserved: Resources | null) => Promise<Begun | undefined>,
  signals: Signals,
): Promise<void> {
  const { cell } = options
  const { operation } = job
  const { required, organization_id } = want
  const { created_at } = operation
  const now = cell.clock.now()
  const host = cell.room.capacity()
  const refuseIt = async (error: OperationError) => {
    if (operation.attempt === 0) return refuse(job, known.kind, error)
    // The undo calls the host, which may not answer. It runs as a job, so that no other operation waits for the call.
    run(options, state, operation, { group: known.group, organization_id }, signals, () => refuse(job, known.kind, error))
  }
  const answer = host === null ? null : admit({ required, host, created_at, now })
  if (answer?.kind === 'refuse') {
    cell.room.withdraw(want.id)
    return refuseIt(answer.error)
  }
  const decision = await cell.room.decide(want, () => begin(known, required))
  if (decision.kind === 'given' || answer === null) return
  state.left_some = true
  const ahead = preCaptureOf(operation)
  if (ahead !== undefined) {
    if (!mayBegin(options, state, { group: ahead.group, organization_id: want.organization_id })) return
    state.ahead.set(operation.id, want)
    if ((await begin(ahead, null)) === undefined) state.ahead.delete(operation.id)
    return
  }
  let { deadline_at } = answer
  if (!known.starts) {
    // Only open, resume and fork wait long (App, "Capacity wait"). A replacement blocks its workspace, so it waits briefly.
    deadline_at = new Date(created_at.getTime() + LIMITS.idle.wake_seconds_max * 1000)
    if (now >= deadline_at || !cell.room.isReachable(want)) {
      cell.room.withdraw(want.id)
      return refuseIt(noRoom(required, created_at, now))
    }
  }
  if (state.deadline_at === null || deadline_at < state.deadline_at) state.deadline_at = deadline_at
  if (known.starts) await tell(options, state, operation, deadline_at, pending(required, deadline_at, decision.short), decision.short)
}

/** Writes only when the short resources change: many waiting operations must not make each pass long. */
async function tell(
  { cell }: RunnerOptions,
  state: State,
  operation: OpenOperation,
  deadline_at: Date,
  error: OperationError,
  short: readonly ShortResource[],
): Promise<void> {
  const before = state.told.get(operation.id)
  const told = short.join()
  if (operation.state === 'queued') await markPending(cell.db, operation, cell.clock.now(), deadline_at, error)
  else if (before !== undefined && before !== told) await updatePendingReason(cell.db, operation, cell.clock.now(), error)
  state.told.set(operation.id, told)
}

/** Begins operations on volumes and builds. Fails those on any other target, so that the caller does not wait for ever. */
async function beginOthers(options: RunnerOptions, state: State, others: readonly OtherOperation[], signals: Signals): Promise<void> {
  const capturing = await listCapturing(
    options.cell.db,
    others.filter(isBuild).map(({ subject_id }) => subject_id),
  )
  for (const other of inFairShares(state, others, placeOfOther)) {
    if (options.signal.aborted || state.draining) return
    if (state.jobs.has(other.id) || isWaiting(state, other.id)) continue
    const place = placeOfOther(other)
    if (place === undefined) await giveUp(options.cell, other)
    // A build with a running capture is skipped, because the end of the capture wakes the runner.
    else if (capturing.has(other.subject_id) || !mayBegin(options, state, place)) state.left_some = true
    else if (isBuild(other)) run(options, state, other, place, signals, () => workOnBuild(options.cell, other, options.signal))
    else run(options, state, other, place, signals, () => workOnVolume(options.cell, other, options.signal))
  }
}

function placeOfOther(other: OtherOperation): PermitRequest | undefined {
  const { owner_id: organization_id } = other
  if (isBuild(other)) return { group: 'build', organization_id }
  return volumeWork(other) === undefined ? undefined : { group: 'volume', organization_id }
}

async function giveUp(cell: CellContext, other: OtherOperation): Promise<void> {
  const error = operationError('internal_error', 'This cell does not know the operation')
  await finish(cell.db, other, cell.clock.now(), { state: 'failed', error }).catch((lost: unknown) => {
    if (!(lost instanceof LostRace)) throw lost
  })
}

function jobOf({ cell, signal }: RunnerOptions, operation: OpenOperation): Job {
  return { cell, operation, signal }
}
