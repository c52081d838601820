import { machineState, type MachineEvent } from '../../../contract/states/machine.ts'
import type { Machine } from '../../../contract/internal/host-inventory.ts'
import { failpoint, type FailpointName } from '../../lib/failpoints.ts'
import { isDiskAlone } from './checkpoint-store.ts'
import { operationError, Refused } from './errors.ts'
import { callHost, callHostUnless, claimedRow, findMachine, tidy, type Job } from './job.ts'
import { moveAndEnd, moveAsAttempt } from './move-store.ts'
import { startRequest } from './requests.ts'
import { startsUp, startUp } from './startup.ts'
import { endAttempt, finish, moveWorkspace, type Move } from './store.ts'
import { readMachineRow, type MachineRow } from '../machines/machine-row-store.ts'

/** The step from which on the operation is never undone. */
export const COMMITTED = 'committed'

/** `boots`: no memory was restored. `is_ready`: a warm machine has already started up. */
export interface Began {
  boots: boolean
  is_ready?: true
}

export interface RunningEnd {
  event: Extract<MachineEvent, 'started' | 'resumed' | 'forked'>
  before_commit: FailpointName
  before_connect: FailpointName
  before_success?: FailpointName
  /** Runs again after an interruption. */
  finishing?(job: Job): Promise<void>
  result: Record<string, unknown>
}

/**
 * Starts a machine without restored processes. Its packets may leave at once, so one commit ends the operation. @param from_disk null: a
 * blank disk
 */
export async function startRunning(job: Job, seen: MachineRow, epoch: number, from_disk: string | null, end: RunningEnd): Promise<void> {
  const { cell, operation } = job
  const machine = await callHost(job, seen.id, 'start', epoch, (fence) =>
    cell.host.start({ ...startRequest(fence, seen, from_disk), connect: true }),
  )
  await failpoint(end.before_connect) // the start has connected the machine: nothing runs between these two
  await failpoint(end.before_commit)
  if (cell.table.isDead(seen.id, machine.fence)) throw new Refused(DIED_EARLY)
  if (seen.startup !== null) return completeRunning(job, await commitRunning(job, seen, machine, end, { boots: true }), machine, end)
  const now = cell.clock.now()
  const result = { ...end.result, ownership_epoch: machine.epoch, ...leftOut(seen, machine) }
  const row = await moveAndEnd(cell.db, operation, now, { state: 'succeeded', result }, moveToRunning(seen, machine, end, now))
  showMachine(job, machine)
  // Records a death that was reported before the row had this epoch, and so was not recorded.
  if (cell.table.isDead(seen.id, machine.fence))
    await cell.db.transaction().execute((tx) => moveWorkspace(tx, row, 'died', now, { grants: null }))
  await openAdmission(job, seen.id)
}

/** Attached volumes that the machine started without. */
function leftOut({ volumes }: MachineRow, { refused_volumes = [] }: Machine): { refused_volumes?: object[] } {
  const found = volumes.flatMap(({ volume_id, mount_path, place }) =>
    refused_volumes.filter((one) => one.place === place).map(({ why }) => ({ volume_id, mount_path, why })),
  )
  return found.length === 0 ? {} : { refused_volumes: found }
}

async function openAdmission({ cell }: Job, workspace_id: string): Promise<void> {
  const entry = await cell.table.fresh(workspace_id)
  if (entry?.machine?.state === 'running') cell.agents.greet(entry.id, entry.machine, entry.gone)
}

/** Commits before packets may leave: a restored guest continues by itself, and the next attempt must not send its packets again. */
export async function commitRunning(job: Job, seen: MachineRow, machine: Machine, end: RunningEnd, how: Began): Promise<MachineRow> {
  const { cell, operation } = job
  await failpoint(end.before_commit)
  if (cell.table.isDead(seen.id, machine.fence)) throw new Refused(DIED_EARLY)
  const now = cell.clock.now()
  const { reserved: _taken, ...progress } = operation.progress // the grants count from here on
  const committed = { step: COMMITTED, progress }
  const move = moveToRunning(seen, machine, end, now)
  if (seen.startup !== null && (how.boots || how.is_ready === true)) move.changes.startup = { state: how.boots ? 'pending' : 'ready' }
  const row = await moveAsAttempt(cell.db, operation, now, move, committed)
  showMachine(job, machine)
  return row
}

/** A blank or disk-only content has no memory: the machine boots. */
export async function howItBegan({ cell }: Job, { startup, checkpoint_id }: MachineRow): Promise<Began> {
  if (startup === null) return { boots: false } // unused without a start-up
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

/** The machine died before the commit, so the attempt is undone like any other. */
const DIED_EARLY = operationError('dependency_failed', 'The machine ended while it was being started', { reason: 'died' })

export function showMachine(job: Job, machine: Machine): void {
  job.cell.table.putMachine(machine)
}

export async function completeRunning(job: Job, row: MachineRow, machine: Machine, end: RunningEnd): Promise<void> {
  const { cell, operation } = job
  await failpoint(end.before_connect)
  const connected = await callHostUnless(job, DEAD, row.id, 'connect', row.ownership_epoch, (fence) => cell.host.connect(fence))
  if (!connected) return endedSince(job, row)
  if (end.before_success !== undefined) await failpoint(end.before_success)
  await end.finishing?.(job)
  const result = { ...end.result, ownership_epoch: row.ownership_epoch, ...leftOut(row, machine) }
  if (startsUp(row)) return startUp(job, row, result)
  await finish(cell.db, operation, cell.clock.now(), { state: 'succeeded', result })
  await openAdmission(job, row.id)
}

export async function completeEarlier(job: Job, end: RunningEnd): Promise<void> {
  const row = await claimedRow(job)
  const machine = await findMachine(job, row.id)
  if (machine?.epoch !== row.ownership_epoch) return endedSince(job, row)
  showMachine(job, machine)
  await completeRunning(job, row, machine, end)
}

const DEAD = ['not_running', 'not_found'] as const

/** Fails the operation, because the machine died before admission opened. */
async function endedSince(job: Job, row: MachineRow): Promise<void> {
  const { cell, operation } = job
  const now = cell.clock.now()
  const error = operationError('dependency_failed', 'The machine ended before it was ready', { reason: 'died' })
  const current = await readMachineRow(cell.db, row.id) // the death may be recorded already
  await endAttempt(cell.db, operation, now, { state: 'failed', error }, async (tx) => {
    if (machineState(current.observed_state, 'died') !== null) await moveWorkspace(tx, current, 'died', now, { grants: null })
  })
  await cell.table.fresh(row.id)
}

export async function dropDisks(job: Job, workspace_id: string, epoch: number, names: (string | null)[]): Promise<void> {
  const old = names.filter((name) => name !== null)
  if (old.length === 0) return
  await tidy(job, 'old disks', () =>
    callHost(job, workspace_id, 'drop-disks', epoch, (fence) => job.cell.host.deleteDisks({ ...fence, names: old })),
  )
}
