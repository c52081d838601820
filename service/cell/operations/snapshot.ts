import { failpoint } from '../../lib/failpoints.ts'
import type { CheckpointInfo } from '../links/hostd.ts'
import { insertCheckpoint } from './checkpoint-store.ts'
import { captureError, operationError, Refused } from './errors.ts'
import { ask, claimedRow, quiesce, type Job, type OperationKind } from './job.ts'
import { endAttempt, LostRace, moveWorkspace, readMachineRow, type MachineRow } from './store.ts'
import { unpause, wakeAfterEarlier } from './suspend.ts'

/** Captures a running workspace and lets it run on, or copies what a suspended one is already. */
export const snapshot = copying('snapshot', capture)

/** Captures the disk of a running workspace alone: what other machines start from, and nothing is restored from. */
export const layerSnapshot = copying('layer', captureDisk)

type Capture = (job: Job, seen: MachineRow) => Promise<CheckpointInfo>

function copying(kind: 'snapshot' | 'layer', capture: Capture): OperationKind {
  return {
    async drive(job) {
      const { cell, operation } = job
      const seen = await claimedRow(job)
      if (operation.attempt > 1) await wakeAfterEarlier(job, seen)
      await failpoint('snapshot.P2')
      await quiesce(job, seen.id) // changes that callers have begun end first; reads go on
      await failpoint('snapshot.P3')
      const info = await capture(job, seen)
      await failpoint('snapshot.P6')
      const now = cell.clock.now()
      const result = { checkpoint_id: info.checkpoint_id }
      await endAttempt(cell.db, operation, now, { state: 'succeeded', result }, async (tx) => {
        await insertCheckpoint(tx, cell, operation, info, { kind, label: labelOf(job), expires_at: null })
      })
      await cell.table.fresh(seen.id)
    },
    async undo(job, error) {
      const { cell, operation } = job
      const seen = await readMachineRow(cell.db, operation.workspace_id)
      const alive = seen.observed_state !== 'running' || (await unpause(job, seen, 'unpause-undo'))
      const now = cell.clock.now()
      await endAttempt(cell.db, operation, now, { state: 'failed', error }, async (tx) => {
        if (!alive) await moveWorkspace(tx, seen, 'lost', now, { grants: null })
      })
      await cell.table.fresh(seen.id)
    },
    errorOf: captureError,
  }
}

function capture(job: Job, seen: MachineRow): Promise<CheckpointInfo> {
  const { cell } = job
  const checkpoint_id = cell.ids.next()
  const epoch = seen.ownership_epoch
  if (seen.observed_state === 'running') {
    return ask(job, seen.id, 'capture', epoch, (fence) => cell.host.checkpoint({ ...fence, checkpoint_id, then: 'running' }))
  }
  if (seen.checkpoint_id === null) throw new LostRace('The suspended workspace')
  const source = { source_workspace_id: seen.id, source_checkpoint_id: seen.checkpoint_id }
  return ask(job, seen.id, 'capture', epoch, (fence) => cell.host.cloneCheckpoint({ ...fence, ...source, checkpoint_id }))
}

function captureDisk(job: Job, seen: MachineRow): Promise<CheckpointInfo> {
  if (seen.observed_state !== 'running') throw new Refused(NOT_RUNNING) // it ended since it was asked
  const checkpoint_id = job.cell.ids.next()
  const how = { checkpoint_id, then: 'running', disk_only: true } as const
  return ask(job, seen.id, 'capture', seen.ownership_epoch, (fence) => job.cell.host.checkpoint({ ...fence, ...how }))
}

const NOT_RUNNING = operationError('checkpoint_failed', 'The workspace does not run any more', { reason: 'not_running' })

function labelOf(job: Job): string | null {
  const { label } = job.operation.input
  return typeof label === 'string' ? label : null
}
