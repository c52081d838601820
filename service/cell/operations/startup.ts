import type { OperationError } from '../../db/column-types.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { operationError } from './errors.ts'
import { claimedRow, type Job, type OperationKind } from './job.ts'
import { guestOf, MachineEnded } from './startup-guest.ts'
import { runStep, type Failed } from './startup-run.ts'
import { stepsFrom, stepsOf } from './startup-steps.ts'
import { endStartup, noteStep, openGate, readStartup } from './startup-store.ts'
import { endAttempt, moveWorkspace } from './store.ts'
import { readMachineRow, type MachineRow } from '../machines/machine-row-store.ts'

export function startsUp({ startup }: MachineRow): boolean {
  return startup !== null && startup.state !== 'ready'
}

/**
 * The machine already serves tools, but the workspace is ready only with this result (App, "Workspace (view)"). An interrupted start-up
 * continues at its step, because the agent starts no session twice.
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

async function runSteps(job: Job, row: MachineRow): Promise<Failed | null> {
  const { cell, operation } = job
  const { startup } = row
  const guest = guestOf(job, row)
  const steps = stepsFrom(stepsOf(await readStartup(cell.db, row.id)), startup !== null && 'step' in startup ? startup.step : null)
  for (const step of steps) {
    await failpoint('startup.U1')
    await noteStep(cell.db, operation, row, step.run.name, cell.clock.now())
    await failpoint('startup.U2')
    const failed = await runStep(guest, step, operation.id)
    if (failed !== null) return failed
  }
  return null
}

function errorOf({ state: _, ...details }: Failed): OperationError {
  return operationError('startup_failed', `The start-up of the workspace failed at ${details.step}; the next open runs it again`, details)
}

async function endedMeanwhile(job: Job, row: MachineRow): Promise<void> {
  const error = operationError('dependency_failed', 'The machine ended while it started up', { reason: 'died' })
  const now = job.cell.clock.now()
  const current = await readMachineRow(job.cell.db, row.id)
  await endAttempt(job.cell.db, job.operation, now, { state: 'failed', error }, async (tx) => {
    const died = current.observed_state === 'running' && current.ownership_epoch === row.ownership_epoch
    if (died && job.cell.table.get(row.id)?.machine === null) await moveWorkspace(tx, current, 'died', now, { grants: null })
  })
}

export const startupRetry: OperationKind = {
  async drive(job) {
    const row = await claimedRow(job)
    if (row.observed_state !== 'running') return endedMeanwhile(job, row)
    await startUp(job, row, { ownership_epoch: row.ownership_epoch })
  },
  undo: null,
  errorOf: ({ message }) => operationError('dependency_failed', message),
}
