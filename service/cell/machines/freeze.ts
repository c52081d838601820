import type { CommandHeader } from '../../../contract/internal/host-subject.ts'
import type { Ids } from '../../lib/ids.ts'
import { thawByFile } from '../host/freezer.ts'
import { HostFailure } from '../host/hostd.ts'
import type { MayPark, ParkingContext } from './parking.ts'
import { takenOver, wakeFailed } from './parking-refusals.ts'
import { drawFence } from './settle-store.ts'
import type { LiveMachine } from '../host/live-machine.ts'
import { workspaceSubject } from '../host/subject.ts'

export type ThawByHost = (machine: LiveMachine) => Promise<void>

/**
 * The fence is drawn before the workspace is read again. A later operation has a higher fence, so the host refuses a late freeze.
 * A call during the freeze waits for its end, and then thaws the machine.
 * @returns whether the machine is frozen or may be.
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
    // A reconcile pass corrects the table: a frozen machine recorded as running would hang its callers.
    if (error.code === 'internal' || error.code === 'invalid_answer') room.requestReconcile()
    if (error.code !== 'unreachable') return false
    // Without an answer the machine may be frozen: the next caller thaws it first.
  }
  table.markMachine(workspace_id, machine.fence, 'frozen')
  return true
}

/** Works without the host and the database if the freezer file can be written. */
export async function thaw({ table, log }: ParkingContext, workspace_id: string, by_host: ThawByHost): Promise<boolean> {
  const machine = table.get(workspace_id)?.machine
  if (machine?.state !== 'frozen') return false
  try {
    await thawMachine(machine, by_host)
  } catch (cause) {
    if (!(cause instanceof HostFailure)) throw cause
    log.warn({ workspace_id, err: cause }, 'a frozen machine could not be thawed')
    // Reads the entry again: another process may have parked the machine.
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
  // The new fence of a call would cancel the operation that holds the workspace. The operation thaws the machine itself.
  if ((table.get(workspace_id)?.hold ?? null) !== null) throw takenOver()
  await host.thaw(freezeHeader(ids, workspace_id, 'thaw', machine.epoch, await drawFence(db)))
}

function freezeHeader(ids: Ids, workspace_id: string, step: string, epoch: number, fence: number): CommandHeader {
  return { subject: workspaceSubject(workspace_id), operation_id: ids.next(), step, epoch, fence }
}
