import { databaseIsUnavailable } from '../../http/database-failure.ts'
import { Failure } from '../../lib/fail.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { HostFailure, type Fence, type Machine, type RestoreRequest } from '../links/hostd.ts'
import { hostnameOf } from '../operations/requests.ts'
import { hostFull, takenOver, wakeFailed } from './parking-refusals.ts'
import type { ParkingContext } from './parking.ts'
import { beginWake, commitWake, hasRoom, undoWake, type Move, type Sleeper } from './parking-store.ts'
import { drawFence } from './reconcile-store.ts'

/**
 * Restores a hibernated machine in its own epoch: nobody has to notice. Until the commit its checkpoint is all that counts, and
 * stays as it is whatever fails; its packets leave after it, since a guest goes on by itself.
 * @returns false where it is something else by now: whoever waits looks again.
 */
export async function wakeSleeper(context: ParkingContext, workspace_id: string, epoch: number): Promise<boolean> {
  try {
    return await wakeOnce(context, workspace_id, epoch)
  } catch (error) {
    if (error instanceof Failure || databaseIsUnavailable(error)) throw error
    // Whatever went wrong, the call was not made and the workspace is as it was: its caller may try again.
    context.log.error({ workspace_id, err: error }, 'a wake fell over')
    throw wakeFailed(error)
  }
}

async function wakeOnce(context: ParkingContext, workspace_id: string, epoch: number): Promise<boolean> {
  const { cell_id, db, ids, table } = context
  await failpoint('wake.W1')
  const [fence, fits] = await Promise.all([drawFence(db), hasRoom(db, { cell_id, workspace_id })])
  if (!fits) throw hostFull()
  const move: Move = { cell_id, workspace_id, epoch, fence }
  const sleeper = await beginWake(db, move)
  if (sleeper === null) {
    const entry = await table.fresh(workspace_id)
    if (entry !== undefined && entry.hold !== null) throw takenOver()
    return false
  }
  const operation_id = ids.next()
  const speak = (step: string): Fence => ({ workspace_id, operation_id, step, epoch, fence: move.fence })
  const machine = await bringBack(context, move, sleeper, speak)
  await failpoint('wake.W4')
  // Its row is read meanwhile: the gate lets nobody through before both are done.
  await Promise.all([finish(context, machine, speak), table.fresh(workspace_id)])
  return true
}

async function bringBack(
  context: ParkingContext,
  move: Move,
  sleeper: Sleeper,
  speak: (step: string) => Fence,
): Promise<Machine & { dropped: string[] }> {
  const { host, db, table } = context
  try {
    await failpoint('wake.W2')
    const { checkpoint_id, resources } = sleeper
    const machine = await restoreAlone(context, speak, { resources, hostname: hostnameOf(move.workspace_id), checkpoint_id })
    table.putMachine(machine) // it shows when the row says that it is resident
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
    // Without an answer nobody knows what there is: the next attempt stops it first.
    if (error.code !== 'unreachable') await undoWake(db, move)
    throw refusalOf(error)
  }
}

/** What a move that was cut short has left is nobody's machine. It is hardly ever there, so it is stopped only where it is in the way. */
async function restoreAlone(
  { host }: ParkingContext,
  speak: (step: string) => Fence,
  request: Omit<RestoreRequest, keyof Fence>,
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

function refusalOf(failure: HostFailure): Error {
  if (failure.code === 'no_capacity') return hostFull(failure)
  return failure.code === 'fenced' ? takenOver(failure) : wakeFailed(failure)
}

async function finish(
  { host, log }: ParkingContext,
  machine: Machine & { dropped: string[] },
  speak: (step: string) => Fence,
): Promise<void> {
  try {
    await host.connect(speak('connect'))
  } catch (error) {
    log.warn({ workspace_id: machine.workspace_id, err: error }, 'a woken machine is not connected yet') // the reconciler does it
  }
  if (machine.dropped.length === 0) return
  host.deleteCheckpoints({ ...speak('drop-checkpoint'), names: machine.dropped }).catch((error: unknown) => {
    log.debug({ err: error }, 'left to the reconciler') // nobody waits for it
  })
}
