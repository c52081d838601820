import { setTimeout } from 'node:timers/promises'
import { LIMITS } from '../../../contract/limits.ts'
import type { Machine } from '../../../contract/internal/host-inventory.ts'
import type { CommandHeader } from '../../../contract/internal/host-subject.ts'
import type { RestoreRequest } from '../../../contract/internal/host.ts'
import { databaseIsUnavailable } from '../../http/database-failure.ts'
import { Failure } from '../../lib/fail.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { HostFailure, type HostFailureCode } from '../host/hostd.ts'
import { hostnameOf } from '../host/hostname.ts'
import { hostFull, takenOver, wakeFailed } from './parking-refusals.ts'
import type { ParkingContext } from './parking.ts'
import { beginWake, commitWake, undoWake, type Transition, type HibernatedMachine } from './parking-store.ts'
import { drawFence } from './settle-store.ts'
import { workspaceSubject } from '../host/subject.ts'
import type { CapacityRequest } from '../capacity/allocator.ts'

const RESTORE_MS = 1000
/** Pause before a retry: the host refused for capacity, although the ledger had some. */
const AGAIN_MS = 100

export type RestoreSemaphore = <T>(work: () => Promise<T>) => Promise<T>

/**
 * Until the commit the checkpoint is the workspace's state, and no failure changes it. A restored guest runs by itself, so its packets are
 * held back until the commit.
 * @returns false if the workspace is not hibernated any more: the caller checks again.
 */
export async function wakeHibernated(
  context: ParkingContext,
  workspace_id: string,
  epoch: number,
  inTurn: RestoreSemaphore,
): Promise<boolean> {
  const until_ms = performance.now() + LIMITS.idle.wake_seconds_max * 1000 - RESTORE_MS
  try {
    for (;;) {
      const outcome = await wakeOnce(context, workspace_id, epoch, inTurn, until_ms - performance.now())
      if (outcome !== 'again') return outcome
      if (performance.now() > until_ms) throw hostFull()
      context.room.markStale()
      await setTimeout(AGAIN_MS)
    }
  } catch (error) {
    if (error instanceof Failure) throw error
    context.room.requestReconcile() // the row may be left in `restoring`, and the machine may exist
    if (databaseIsUnavailable(error)) throw error
    // Reported as a failed wake: the call was not made, and the workspace is unchanged.
    context.log.error({ workspace_id, err: error }, 'a wake failed')
    throw wakeFailed(error)
  }
}

async function wakeOnce(
  context: ParkingContext,
  workspace_id: string,
  epoch: number,
  inTurn: RestoreSemaphore,
  limit_ms: number,
): Promise<boolean | 'again'> {
  const { cell_id, db, ids, table, room } = context
  await failpoint('wake.W1')
  const want = wantOf(context, workspace_id)
  const move: Transition = { cell_id, workspace_id, epoch, fence: 0 }
  const reserve = async () => {
    move.fence = await drawFence(db)
    return beginWake(db, move)
  }
  // An operation does not begin before this transition has ended.
  const isHeld = () => (table.get(workspace_id)?.hold?.gate ?? 'open') !== 'open'
  const check = () => {
    if (isHeld()) throw takenOver()
  }
  if (isHeld()) await table.fresh(workspace_id) // the table's hold may be outdated: the operation may have ended
  const given = await room.acquire(want, reserve, Math.max(limit_ms, 0), { check })
  if (given === null) throw hostFull()
  const sleeper = given.value
  if (sleeper === null) {
    const entry = await table.fresh(workspace_id)
    if (entry !== undefined && entry.hold !== null) throw takenOver()
    return false
  }
  const operation_id = ids.next()
  const speak = (step: string): CommandHeader => ({ subject: workspaceSubject(workspace_id), operation_id, step, epoch, fence: move.fence })
  const machine = await inTurn(() => restoreAndCommit(context, move, sleeper, speak))
  if (machine === 'again') return machine
  await failpoint('wake.W4')
  // Calls reach the machine only after both.
  await Promise.all([finish(context, machine, speak), table.fresh(workspace_id)])
  return true
}

function wantOf({ table, clock }: ParkingContext, workspace_id: string): CapacityRequest {
  const entry = table.get(workspace_id)
  return {
    id: workspace_id,
    own: workspaceSubject(workspace_id),
    organization_id: entry?.organization_id ?? '',
    memory_mib: entry?.grants?.memory_mib ?? 0,
    disk_gib: 0, // 0, because hibernation does not release the disk
    since: clock.now(),
    is_call: true,
  }
}

async function restoreAndCommit(
  context: ParkingContext,
  move: Transition,
  sleeper: HibernatedMachine,
  speak: (step: string) => CommandHeader,
): Promise<(Machine & { dropped: string[] }) | 'again'> {
  const { host, db, table } = context
  try {
    await failpoint('wake.W2')
    const machine = await restoreAlone(context, speak, { ...sleeper, hostname: hostnameOf(move.workspace_id) })
    table.putMachine(machine) // readers see the machine once the row says resident
    await failpoint('wake.W3')
    if (table.isDead(move.workspace_id, machine.fence)) throw new HostFailure('restore_failed', 'It died', { retryable: true })
    const dropped = await commitWake(db, move, machine.disk)
    if (dropped !== null) return { ...machine, dropped }
    await table.fresh(move.workspace_id)
    await host.stop({ ...speak('stop-late'), machine_epoch: move.epoch })
    throw takenOver()
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error
    context.log.warn({ workspace_id: move.workspace_id, err: error }, 'a hibernated machine could not be restored')
    // Without an answer the machine may exist: the row stays restoring, and the next attempt stops the machine.
    if (error.code !== 'unreachable') await undoWake(db, move)
    if (UNCLEAR.has(error.code)) context.room.requestReconcile()
    if (error.code === 'no_capacity') {
      context.room.refused(move.workspace_id, sleeper.resources.memory_mib)
      return 'again'
    }
    throw error.code === 'fenced' ? takenOver(error) : wakeFailed(error)
  }
}

/** A machine may exist that no row names, so a reconcile pass must look. */
const UNCLEAR: ReadonlySet<HostFailureCode> = new Set(['unreachable', 'invalid_answer', 'internal', 'no_capacity'] as const)

/** A machine of an interrupted transition is rare, so it is stopped only when the host answers already_running. */
async function restoreAlone(
  { host }: ParkingContext,
  speak: (step: string) => CommandHeader,
  request: Omit<RestoreRequest, keyof CommandHeader>,
): Promise<Machine> {
  try {
    return await host.restore({ ...speak('restore'), ...request })
  } catch (error) {
    if (!(error instanceof HostFailure) || error.code !== 'already_running') throw error
    const fence = speak('stop-unborn')
    await host.stop({ ...fence, machine_epoch: fence.epoch })
    return host.restore({ ...speak('restore-again'), ...request })
  }
}

async function finish(
  { host, room, log }: ParkingContext,
  machine: Machine & { dropped: string[] },
  speak: (step: string) => CommandHeader,
): Promise<void> {
  try {
    await host.connect(speak('connect'))
  } catch (error) {
    log.warn({ workspace_id: machine.subject.id, err: error }, 'a woken machine is not connected yet')
    room.requestReconcile()
  }
  if (machine.dropped.length === 0) return
  host.deleteCheckpoints({ ...speak('drop-checkpoint'), names: machine.dropped }).catch((error: unknown) => {
    log.debug({ err: error }, 'left to the reconciler')
  })
}
