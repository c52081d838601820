import { setTimeout } from 'node:timers/promises'
import type { CommandHeader } from '../../../contract/internal/host-subject.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { HostFailure } from '../host/hostd.ts'
import type { LiveMachine } from '../host/live-machine.ts'
import type { MayPark, ParkingContext } from './parking.ts'
import { beginHibernation, commitHibernation, isHibernatedBy, type UnreferencedFiles, type Transition } from './parking-store.ts'
import { drawFence } from './settle-store.ts'
import type { Drain } from '../capacity/draining.ts'
import { workspaceSubject } from '../host/subject.ts'

const RETRY_MS_MIN = 50
const RETRY_MS_MAX = 1000
const TRIES_MAX = 30

/**
 * Before the commit every failure, call or operation lets the guest run again. After the commit the hibernation cannot be undone.
 * @returns false if the workspace was used. Rejects if its memory could not be saved.
 */
export async function hibernate(context: ParkingContext, workspace_id: string, machine: LiveMachine, mayPark: MayPark): Promise<boolean> {
  const { cell_id, db, table, ids } = context
  const move: Transition = { cell_id, workspace_id, epoch: machine.epoch, fence: await drawFence(db) }
  const entry = await table.fresh(workspace_id)
  if (!mayPark(entry, machine) || !(await beginHibernation(db, move))) return false
  // The row releases its capacity with the commit, but the machine releases it only when it ends.
  using leaving = context.room.leaving(workspace_id, entry?.grants?.memory_mib ?? 0)
  const operation_id = ids.next()
  const checkpoint_id = ids.next()
  const speak = (step: string): CommandHeader => ({
    subject: workspaceSubject(workspace_id),
    operation_id,
    step,
    epoch: move.epoch,
    fence: move.fence,
  })
  const { left, failed } = await save(context, move, speak('hibernate'), checkpoint_id).catch((error: unknown) => {
    context.room.requestReconcile() // the hibernation may be committed, and the guest is paused
    throw error
  })
  if (left === null) {
    await unpauseGuest(context, machine, speak, checkpoint_id)
    if (failed !== undefined) throw new Error('The machine could not be saved', { cause: failed.by })
    return false
  }
  // From here on no call reaches the machine. If stopping it fails, the next wake or reconcile pass stops it.
  table.parkMachine(workspace_id, machine.fence)
  await table.fresh(workspace_id).catch(() => undefined) // a failure is harmless: the notification causes another read
  if (await stopSaved(context, speak('stop'), leaving, machine)) await dropLeft(context, speak, left)
  return true
}

async function stopSaved(
  { host, log, tries_max }: ParkingContext,
  fence: CommandHeader,
  leaving: Drain,
  machine: LiveMachine,
): Promise<boolean> {
  try {
    await failpoint('hibernate.H3')
    await persist(() => host.stop({ ...fence, machine_epoch: fence.epoch }), tries_max)
    return true
  } catch (error) {
    leaving.markPendingExit(machine.fence)
    if (!(error instanceof HostFailure)) throw error
    log.warn({ workspace_id: fence.subject.id, err: error }, 'a hibernated machine is not stopped yet')
    return false
  }
}

/** If the answer of the commit is lost, the row is read: the guest may continue only if nothing was committed. */
async function save(
  { host, db, table, clock, tries_max }: ParkingContext,
  move: Transition,
  fence: CommandHeader,
  checkpoint_id: string,
): Promise<{ left: UnreferencedFiles | null; failed?: { by: unknown } }> {
  try {
    await failpoint('hibernate.H1')
    const info = await host.checkpoint({ ...fence, checkpoint_id, then: 'paused' })
    await failpoint('hibernate.H2')
    if (table.activity.inUse(move.workspace_id)) return { left: null }
    return { left: await commitHibernation(db, move, fence.operation_id, info, clock.now()) }
  } catch (error) {
    const committed = await persist(() => isHibernatedBy(db, move), tries_max)
    return committed ? { left: { disk: null, checkpoints: [] } } : { left: null, failed: { by: error } }
  }
}

async function unpauseGuest(
  { host, table, room, log, tries_max }: ParkingContext,
  machine: LiveMachine,
  speak: (step: string) => CommandHeader,
  checkpoint_id: string,
): Promise<void> {
  const fence = speak('unpause')
  try {
    await persist(() => host.unpause(fence), tries_max)
  } catch (error) {
    log.warn({ workspace_id: fence.subject.id, err: error }, 'a machine whose hibernation was undone could not be thawed')
    room.requestReconcile()
    return
  }
  table.markMachine(fence.subject.id, machine.fence, 'running')
  await dropLeft({ host, log }, speak, { disk: null, checkpoints: [checkpoint_id] })
}

async function dropLeft(
  { host, log }: Pick<ParkingContext, 'host' | 'log'>,
  speak: (step: string) => CommandHeader,
  left: UnreferencedFiles,
): Promise<void> {
  try {
    if (left.disk !== null) await host.deleteDisks({ ...speak('drop-disk'), names: [left.disk] })
    if (left.checkpoints.length > 0) await host.deleteCheckpoints({ ...speak('drop-checkpoints'), names: left.checkpoints })
  } catch (error) {
    log.debug({ err: error }, 'left to the reconciler')
  }
}

/** Retries, because a guest must not stay paused when an answer is missing. A reconcile pass repairs the rest. */
async function persist<T>(work: () => Promise<T>, tries_max = TRIES_MAX): Promise<T> {
  let wait_ms = RETRY_MS_MIN
  for (let tries = 1; ; tries += 1) {
    try {
      return await work()
    } catch (error) {
      if (tries >= tries_max || (error instanceof HostFailure && error.code !== 'unreachable')) throw error
      await setTimeout(wait_ms, undefined, { ref: false })
      wait_ms = Math.min(wait_ms * 2, RETRY_MS_MAX)
    }
  }
}
