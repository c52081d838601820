import type { Ids } from '../../lib/ids.ts'
import { thawByFile } from '../links/freezer.ts'
import { HostFailure, type Fence } from '../links/hostd.ts'
import type { MayPark, ParkingContext } from './parking.ts'
import { takenOver, wakeFailed } from './parking-refusals.ts'
import { drawFence } from './reconcile-store.ts'
import type { LiveMachine } from './table.ts'
import { workspaceSubject } from '../links/subject.ts'

/** The way where the machine's own file does not let us. */
export type ThawByHost = (machine: LiveMachine) => Promise<void>

/**
 * The fence is drawn before the workspace is read again: an operation that is asked for later has a higher one, so that the host
 * refuses a freeze that comes too late. Calls that come meanwhile wait for the end of the move, and thaw it.
 * @returns whether it stands still, or may.
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
    await host.freeze(speech(ids, workspace_id, 'freeze', machine.epoch, fence))
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error
    log.debug({ workspace_id, err: error }, 'not frozen')
    // One that stands still and is taken for running would hang its callers: the comparison sees what it is.
    if (error.code === 'internal' || error.code === 'invalid_answer') room.doubt()
    if (error.code !== 'unreachable') return false
    // It may be done, or be done yet: whoever comes thaws it first.
  }
  table.markMachine(workspace_id, machine.fence, 'frozen')
  return true
}

/** Nothing waits for the host or the database where it succeeds: the caller's own call does. @returns whether it stood still. */
export async function thaw({ table, log }: ParkingContext, workspace_id: string, by_host: ThawByHost): Promise<boolean> {
  const machine = table.get(workspace_id)?.machine
  if (machine?.state !== 'frozen') return false
  try {
    await thawMachine(machine, by_host)
  } catch (cause) {
    if (!(cause instanceof HostFailure)) throw cause
    log.warn({ workspace_id, err: cause }, 'a frozen machine could not be thawed')
    // Whoever asks again sees it where another process has parked it meanwhile.
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
    await by_host(machine) // it says why
  }
}

export async function thawByHost({ db, ids, host, table }: ParkingContext, workspace_id: string, machine: LiveMachine): Promise<void> {
  // The fence of a call would end the operation that has the workspace in hand; that one thaws it itself.
  if ((table.get(workspace_id)?.hold ?? null) !== null) throw takenOver()
  await host.thaw(speech(ids, workspace_id, 'thaw', machine.epoch, await drawFence(db)))
}

function speech(ids: Ids, workspace_id: string, step: string, epoch: number, fence: number): Fence {
  return { subject: workspaceSubject(workspace_id), operation_id: ids.next(), step, epoch, fence }
}
