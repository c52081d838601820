import type { StartupReason } from '../../../contract/errors.ts'
import type { ExecSession } from '../../../contract/schemas/cell/session.ts'
import { setTimeout } from 'node:timers/promises'
import type { OperationError } from '../../db/schema.ts'
import type { StartupState } from '../../db/schema-templates.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { Failure } from '../../lib/fail.ts'
import { operationError } from './errors.ts'
import { claimedRow, type Job, type OperationKind } from './job.ts'
import { cancel, endOf, lookAt, MachineEnded, NoSecrets, startSession, tailOf } from './startup-guest.ts'
import { commandSession, readySession, serviceSession, stepsFrom, stepsOf, type Step } from './startup-steps.ts'
import { endStartup, noteStep, openGate, readStartup } from './startup-store.ts'
import { endAttempt, moveWorkspace, readMachineRow, type MachineRow } from './store.ts'

/** A step that did not come to its end. */
type Failed = Extract<StartupState, { state: 'failed' }>

/** A step that takes its time is ended by the agent; this is for an agent that does not. */
const LATE_MS = 60_000

/** Whether something of the template's is yet to be started in its machine, or failed. */
export function startsUp({ startup }: MachineRow): boolean {
  return startup !== null && startup.state !== 'ready'
}

/**
 * Runs what the template version has started, and ends the operation by what comes of it: only then is the workspace ready (App, "Workspace
 * (view)"). The machine serves tools meanwhile. Whatever is cut off goes on where it was: the agent starts no session twice.
 * @param result of the operation that has brought the machine.
 */
export async function startUp(job: Job, row: MachineRow, result: Record<string, unknown>): Promise<void> {
  const { cell, operation } = job
  try {
    await openGate(cell.db, operation, cell.clock.now())
    await cell.table.fresh(row.id)
    job.waitsForGuest?.()
    const failed = await runSteps(job, row)
    await failpoint('startup.U3')
    const outcome = failed === null ? ({ state: 'succeeded', result } as const) : ({ state: 'failed', error: errorOf(failed) } as const)
    await endStartup(cell.db, operation, row, failed ?? { state: 'ready' }, outcome, cell.clock.now())
  } catch (error) {
    if (!(error instanceof MachineEnded)) throw error
    await endedMeanwhile(job, row)
  }
  await cell.table.fresh(row.id)
}

/** @returns null when the last of them is done. */
async function runSteps(job: Job, row: MachineRow): Promise<Failed | null> {
  const { cell, operation } = job
  const { startup } = row
  const steps = stepsFrom(stepsOf(await readStartup(cell.db, row.id)), startup !== null && 'step' in startup ? startup.step : null)
  for (const step of steps) {
    await failpoint('startup.U1')
    await noteStep(cell.db, operation, row, step.run.name, cell.clock.now())
    await failpoint('startup.U2')
    const failed = await runStep(job, row, step)
    if (failed !== null) return failed
  }
  return null
}

async function runStep(job: Job, row: MachineRow, step: Step): Promise<Failed | null> {
  try {
    return step.kind === 'command' ? await runCommand(job, row, step) : await runService(job, row, step)
  } catch (error) {
    const { name } = step.run
    if (error instanceof NoSecrets) return failure(name, error.reason, null, error.message)
    if (error instanceof Failure) return failure(name, 'startup_failed', null, error.message) // the guest refused it: no disk, too many sessions
    throw error
  }
}

function failure(step: string, reason: StartupReason, exit_code: number | null, output_tail: string): Failed {
  return { state: 'failed', step, reason, exit_code, output_tail }
}

async function runCommand(job: Job, row: MachineRow, { run, needs }: Extract<Step, { kind: 'command' }>): Promise<Failed | null> {
  const session = commandSession(run, job.operation.id, needs)
  await startSession(job, row, session)
  const ended = await endOf(job, row, session.session_id, (session.timeout_ms ?? 0) + LATE_MS)
  if (ended?.state === 'exited' && ended.exit_code === 0 && !ended.timed_out) return null
  return failureOf(job, row, run.name, 'startup_failed', ended ?? (await lookAt(job, row, session.session_id)))
}

async function runService(job: Job, row: MachineRow, { run, needs }: Extract<Step, { kind: 'service' }>): Promise<Failed | null> {
  const { id } = job.operation
  const { session_id } = await startSession(job, row, serviceSession(run, id, needs))
  const ready = readySession(run, id)
  const is_ready = ready === null ? await runs(job, row, session_id) : await becomesReady(job, row, session_id, ready)
  if (is_ready) return null
  const service = await lookAt(job, row, session_id)
  const failed = await failureOf(job, row, run.name, service.state === 'running' ? 'service_not_ready' : 'startup_failed', service)
  if (service.state === 'running') await cancel(job, row, session_id) // it would be in the way of the one that is started next
  return failed
}

async function runs(job: Job, row: MachineRow, session_id: string): Promise<boolean> {
  const { state, exit_code } = await lookAt(job, row, session_id)
  return state === 'running' || (state === 'exited' && exit_code === 0)
}

const LOOK_MS = 200

/** Until it says so, its time is over, or it has ended for good. */
async function becomesReady(job: Job, row: MachineRow, service_id: string, ready: NonNullable<ReturnType<typeof readySession>>) {
  const { session_id } = await startSession(job, row, ready)
  const until_ms = performance.now() + (ready.timeout_ms ?? 0) + LATE_MS
  while (performance.now() < until_ms) {
    const asked = await endOf(job, row, session_id, LOOK_MS)
    if (asked !== null) return asked.state === 'exited' && asked.exit_code === 0 && !asked.timed_out
    if ((await lookAt(job, row, service_id)).state !== 'running') {
      await cancel(job, row, session_id)
      return false
    }
    await setTimeout(LOOK_MS, undefined, { signal: job.signal })
  }
  return false
}

async function failureOf(job: Job, row: MachineRow, step: string, reason: StartupReason, session: ExecSession): Promise<Failed> {
  const tail = session.state === 'failed_to_start' ? (session.error ?? '') : await tailOf(job, row, session)
  return failure(step, reason, session.timed_out ? null : session.exit_code, tail)
}

function errorOf({ state: _, ...details }: Failed): OperationError {
  return operationError('startup_failed', `The start-up of the workspace failed at ${details.step}; the next open runs it again`, details)
}

/** A death like any other; the operation tells of it too. */
async function endedMeanwhile(job: Job, row: MachineRow): Promise<void> {
  const error = operationError('dependency_failed', 'The machine ended while it started up', { reason: 'died' })
  const now = job.cell.clock.now()
  const current = await readMachineRow(job.cell.db, row.id)
  await endAttempt(job.cell.db, job.operation, now, { state: 'failed', error }, async (tx) => {
    const died = current.observed_state === 'running' && current.ownership_epoch === row.ownership_epoch
    if (died && job.cell.table.get(row.id)?.machine === null) await moveWorkspace(tx, current, 'died', now, { grants: null })
  })
}

/** The machine runs; the step that failed is run again, and those after it. */
export const startupRetry: OperationKind = {
  async drive(job) {
    const row = await claimedRow(job)
    if (row.observed_state !== 'running') return endedMeanwhile(job, row)
    await startUp(job, row, { ownership_epoch: row.ownership_epoch })
  },
  undo: null,
  errorOf: ({ message }) => operationError('dependency_failed', message),
}
