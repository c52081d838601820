import { machineState, type MachineEvent } from '../../../contract/states/machine.ts'
import { failpoint, type FailpointName } from '../../lib/failpoints.ts'
import type { Machine } from '../links/hostd.ts'
import { isDiskAlone } from './checkpoint-store.ts'
import { operationError, Refused } from './errors.ts'
import { ask, askUnless, claimedRow, findMachine, tidy, type Job } from './job.ts'
import { moveAndEnd, moveAsAttempt } from './move-store.ts'
import { startRequest } from './requests.ts'
import { startsUp, startUp } from './startup.ts'
import { endAttempt, finish, moveWorkspace, readMachineRow, type MachineRow, type Move } from './store.ts'

/** The commit of a start has happened; from here on only forward. */
export const COMMITTED = 'committed'

/** `boots`: nothing of before runs in it, so its start-up begins anew. `is_ready`: it has started up before it was this workspace's. */
export interface Began {
  boots: boolean
  is_ready?: true
}

/** Opens, resumes and forks end alike: a machine runs and becomes the workspace's machine. */
export interface RunningEnd {
  event: Extract<MachineEvent, 'started' | 'resumed' | 'forked'>
  before_commit: FailpointName
  before_connect: FailpointName
  before_success?: FailpointName
  /** What is done last, before the start-up and the success. Repeated where it is cut off. */
  finishing?(job: Job): Promise<void>
  result: Record<string, unknown>
}

/**
 * Starts a machine that runs nothing of the guest's yet: its packets may leave at once, and one commit makes it the workspace's own and
 * the operation succeed.
 * @param from_disk null: a blank one.
 */
export async function startRunning(job: Job, seen: MachineRow, epoch: number, from_disk: string | null, end: RunningEnd): Promise<void> {
  const { cell, operation } = job
  const machine = await ask(job, seen.id, 'start', epoch, (fence) =>
    cell.host.start({ ...startRequest(fence, seen, from_disk), connect: true }),
  )
  await failpoint(end.before_connect) // which the start has done with the rest: nothing lies between these two
  await failpoint(end.before_commit)
  if (cell.table.isDead(seen.id, machine.fence)) throw new Refused(DIED_EARLY)
  if (seen.startup !== null) return completeRunning(job, await commitRunning(job, seen, machine, end, { boots: true }), machine, end)
  const now = cell.clock.now()
  const result = { ...end.result, ownership_epoch: machine.epoch, ...leftOut(seen, machine) }
  const row = await moveAndEnd(cell.db, operation, now, { state: 'succeeded', result }, moveToRunning(seen, machine, end, now))
  showMachine(job, machine)
  // A death that was told before the row was at this epoch found nobody to write it down.
  if (cell.table.isDead(seen.id, machine.fence))
    await cell.db.transaction().execute((tx) => moveWorkspace(tx, row, 'died', now, { grants: null }))
  await letIn(job, seen.id)
}

/** Volumes that the workspace is attached to and its machine began without, and why: told by the operation that began it. */
function leftOut({ volumes }: MachineRow, { refused_volumes = [] }: Machine): { refused_volumes?: object[] } {
  const found = volumes.flatMap(({ volume_id, mount_path, place }) =>
    refused_volumes.filter((one) => one.place === place).map(({ why }) => ({ volume_id, mount_path, why })),
  )
  return found.length === 0 ? {} : { refused_volumes: found }
}

/** The gate knows the machine from here on, and has a way to it. */
async function letIn({ cell }: Job, workspace_id: string): Promise<void> {
  const entry = await cell.table.fresh(workspace_id)
  if (entry?.machine?.state === 'running') cell.agents.greet(entry.id, entry.machine, entry.gone)
}

/**
 * Makes the machine the workspace's own: epoch, disk and grants in one commit. Its packets leave only afterwards: a guest that was
 * restored goes on by itself, and what it sends must not be sent again by the next attempt.
 * @returns the row as it is then.
 */
export async function commitRunning(job: Job, seen: MachineRow, machine: Machine, end: RunningEnd, how: Began): Promise<MachineRow> {
  const { cell, operation } = job
  await failpoint(end.before_commit)
  if (cell.table.isDead(seen.id, machine.fence)) throw new Refused(DIED_EARLY)
  const now = cell.clock.now()
  const { reserved: _taken, ...progress } = operation.progress // the grants say it from here on
  const committed = { step: COMMITTED, progress }
  const move = moveToRunning(seen, machine, end, now)
  if (seen.startup !== null && (how.boots || how.is_ready === true)) move.changes.startup = { state: how.boots ? 'pending' : 'ready' }
  const row = await moveAsAttempt(cell.db, operation, now, move, committed)
  showMachine(job, machine)
  return row
}

/** Whether the machine that was brought back from what it was seen with booted: it had no memory. */
export async function howItBegan({ cell }: Job, { startup, checkpoint_id }: MachineRow): Promise<Began> {
  if (startup === null) return { boots: false } // which nobody asks then
  return { boots: checkpoint_id === null || (await isDiskAlone(cell.db, checkpoint_id)) }
}

function moveToRunning(seen: MachineRow, machine: Machine, end: RunningEnd, now: Date): Move {
  const changes: Move['changes'] = {
    ownership_epoch: machine.epoch,
    desired_state: 'running',
    pending_reason: null,
    disk: machine.disk,
    checkpoint_id: null,
    residency: 'resident',
    grants: machine.resources,
    active_at: now,
    suspend_request: null,
  }
  return { seen, event: end.event, changes }
}

/** A machine that ended before it was anybody's: the attempt is undone like any other that failed. */
const DIED_EARLY = operationError('dependency_failed', 'The machine ended while it was being started', { reason: 'died' })

export function showMachine(job: Job, machine: Machine): void {
  job.cell.table.putMachine(machine)
}

/** What follows the commit: packets may leave, the gate opens, the operation has succeeded. */
export async function completeRunning(job: Job, row: MachineRow, machine: Machine, end: RunningEnd): Promise<void> {
  const { cell, operation } = job
  await failpoint(end.before_connect)
  const connected = await askUnless(job, DEAD, row.id, 'connect', row.ownership_epoch, (fence) => cell.host.connect(fence))
  if (!connected) return endedSince(job, row)
  if (end.before_success !== undefined) await failpoint(end.before_success)
  await end.finishing?.(job)
  const result = { ...end.result, ownership_epoch: row.ownership_epoch, ...leftOut(row, machine) }
  if (startsUp(row)) return startUp(job, row, result)
  await finish(cell.db, operation, cell.clock.now(), { state: 'succeeded', result })
  await letIn(job, row.id)
}

/** For an attempt that finds the commit done: the machine is the host's to tell. */
export async function completeEarlier(job: Job, end: RunningEnd): Promise<void> {
  const row = await claimedRow(job)
  const machine = await findMachine(job, row.id)
  if (machine?.epoch !== row.ownership_epoch) return endedSince(job, row)
  showMachine(job, machine)
  await completeRunning(job, row, machine, end)
}

const DEAD = ['not_running', 'not_found'] as const

/** The machine was the workspace's and is dead before its gate opened: a death like any other, told by the operation too. */
async function endedSince(job: Job, row: MachineRow): Promise<void> {
  const { cell, operation } = job
  const now = cell.clock.now()
  const error = operationError('dependency_failed', 'The machine ended before it was ready', { reason: 'died' })
  const current = await readMachineRow(cell.db, row.id) // its death may be written down already
  await endAttempt(cell.db, operation, now, { state: 'failed', error }, async (tx) => {
    if (machineState(current.observed_state, 'died') !== null) await moveWorkspace(tx, current, 'died', now, { grants: null })
  })
  await cell.table.fresh(row.id)
}

/** Disks that the commit has left behind. */
export async function dropDisks(job: Job, workspace_id: string, epoch: number, names: (string | null)[]): Promise<void> {
  const old = names.filter((name) => name !== null)
  if (old.length === 0) return
  await tidy(job, 'old disks', () =>
    ask(job, workspace_id, 'drop-disks', epoch, (fence) => job.cell.host.deleteDisks({ ...fence, names: old })),
  )
}
