import { machineState, type MachineEvent } from '../../../contract/states/machine.ts'
import { failpoint, type FailpointName } from '../../lib/failpoints.ts'
import type { Machine } from '../links/hostd.ts'
import { operationError, Refused } from './errors.ts'
import { ask, askUnless, findMachine, tidy, type Job } from './job.ts'
import { asAttempt, finish, moveWorkspace, readMachineRow, setStep, type MachineRow } from './store.ts'

/** The commit of a start has happened; from here on only forward. */
export const COMMITTED = 'committed'

/** Opens, resumes and forks end alike: a machine runs and becomes the workspace's machine. */
export interface RunningEnd {
  event: Extract<MachineEvent, 'started' | 'resumed' | 'forked'>
  before_commit: FailpointName
  before_connect: FailpointName
  before_success: FailpointName
  result: Record<string, unknown>
}

/** Makes the machine the workspace's own: epoch, disk and grants in one commit. Its packets leave only afterwards. */
export async function commitRunning(job: Job, seen: MachineRow, machine: Machine, end: RunningEnd): Promise<void> {
  const { cell, operation } = job
  await failpoint(end.before_commit)
  if (cell.table.isDead(seen.id, machine.fence)) throw new Refused(DIED_EARLY)
  const now = cell.clock.now()
  await asAttempt(cell.db, operation, now, async (tx) => {
    await moveWorkspace(tx, seen, end.event, now, {
      ownership_epoch: machine.epoch,
      desired_state: 'running',
      pending_reason: null,
      disk: machine.disk,
      checkpoint_id: null,
      grants: machine.resources,
      active_at: now,
      suspend_request: null,
    })
    await setStep(tx, operation, COMMITTED, {})
  })
  showMachine(job, machine)
  await cell.table.fresh(seen.id)
}

/** A machine that ended before it was anybody's: the attempt is undone like any other that failed. */
const DIED_EARLY = operationError('dependency_failed', 'The machine ended while it was being started', { reason: 'died' })

export function showMachine(job: Job, machine: Machine): void {
  const { address, agent_key, epoch, fence, state } = machine
  job.cell.table.putMachine(machine.workspace_id, { address, agent_key, epoch, fence, state })
}

/**
 * What follows the commit: packets may leave, the gate opens, the operation has succeeded.
 * @param started the machine, when this attempt started it itself.
 */
export async function completeRunning(job: Job, workspace_id: string, end: RunningEnd, started?: Machine): Promise<void> {
  const { cell, operation } = job
  const row = await readMachineRow(cell.db, workspace_id)
  const machine = started ?? (await findMachine(job, workspace_id))
  if (machine?.epoch !== row.ownership_epoch) return endedSince(job, row)
  showMachine(job, machine)
  await failpoint(end.before_connect)
  const connected = await askUnless(job, DEAD, workspace_id, 'connect', row.ownership_epoch, (fence) => cell.host.connect(fence))
  if (!connected) return endedSince(job, row)
  await failpoint(end.before_success)
  const now = cell.clock.now()
  await asAttempt(cell.db, operation, now, (tx) =>
    finish(tx, operation, now, { state: 'succeeded', result: { ...end.result, ownership_epoch: row.ownership_epoch } }),
  )
  await cell.table.fresh(workspace_id)
}

const DEAD = ['not_running', 'not_found'] as const

/** The machine was the workspace's and is dead before its gate opened: a death like any other, told by the operation too. */
async function endedSince(job: Job, row: MachineRow): Promise<void> {
  const { cell, operation } = job
  const now = cell.clock.now()
  await asAttempt(cell.db, operation, now, async (tx) => {
    if (machineState(row.observed_state, 'died') !== null) await moveWorkspace(tx, row, 'died', now, { grants: null })
    await finish(tx, operation, now, {
      state: 'failed',
      error: operationError('dependency_failed', 'The machine ended before it was ready', { reason: 'died' }),
    })
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
