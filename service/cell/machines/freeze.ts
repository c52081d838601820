import type { Ids } from '../../lib/ids.ts'
import { thawByFile } from '../host/freezer.ts'
import { HostFailure, type CommandHeader } from '../host/hostd.ts'
import type { MayPark, ParkingContext } from './parking.ts'
import { takenOver, wakeFailed } from './parking-refusals.ts'
import { drawFence } from './settle-store.ts'
import type { LiveMachine } from '../host/live-machine.ts'
import { workspaceSubject } from '../host/subject.ts'

export type ThawByHost = (machine: LiveMachine) => Promise<void>

/**
 * The fence is drawn before the workspace is read again: a later operation has a higher one, so the host refuses a late freeze. Calls
 * during the freeze wait for its end, and thaw the machine.
 * @returns whether it is frozen, or may be.
 */
export async function freeze(
  { db, ids, host, table, room, log }: ParkingContext,
  workspace_id: string,
  machine: LiveMachine,
  mayPark: MayPark,
): Promise<boolean> {
  const fence = await drawFence(db)
  if (!mayPark(await table.fresh(workspace_id), machine)) return false
  try {
    await host.freeze(freezeHeader(ids, workspace_id, 'freeze', machine.epoch, fence))
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error
    log.debug({ workspace_id, err: error }, 'not frozen')
    // A frozen machine that is taken for running would hang its callers.
    if (error.code === 'internal' || error.code === 'invalid_answer') room.requestReconcile()
    if (error.code !== 'unreachable') return false
    // The freeze may have happened or may still happen: the next caller thaws it first.
  }
  table.markMachine(workspace_id, machine.fence, 'frozen')
  return true
}

/** Needs neither the host nor the database if the freezer file works. */
export async function thaw({ table, log }: ParkingContext, workspace_id: string, by_host: ThawByHost): Promise<boolean> {
  const machine = table.get(workspace_id)?.machine
  if (machine?.state !== 'frozen') return false
  try {
    await thawMachine(machine, by_host)
  } catch (cause) {
    if (!(cause instanceof HostFailure)) throw cause
    log.warn({ workspace_id, err: cause }, 'a frozen machine could not be thawed')
    // Another process may have parked it.
    await table.fresh(workspace_id).catch(() => undefined)
    throw wakeFailed(cause)
  }
  table.markMachine(workspace_id, machine.fence, 'running')
  return true
}

async function thawMachine(machine: LiveMachine, by_host: ThawByHost): Promise<void> {
  if (machine.freezer_file === null) return by_host(machine)
  try {
    thawByFile(machine.freezer_file)
  } catch {
    await by_host(machine) // the host reports why
  }
}

export async function thawByHost({ db, ids, host, table }: ParkingContext, workspace_id: string, machine: LiveMachine): Promise<void> {
  // The fence of a call would end the operation that holds the workspace. That operation thaws it itself.
  if ((table.get(workspace_id)?.hold ?? null) !== null) throw takenOver()
  await host.thaw(freezeHeader(ids, workspace_id, 'thaw', machine.epoch, await drawFence(db)))
}

function freezeHeader(ids: Ids, workspace_id: string, step: string, epoch: number, fence: number): CommandHeader {
  return { subject: workspaceSubject(workspace_id), operation_id: ids.next(), step, epoch, fence }
}
