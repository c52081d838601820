import type { CheckpointInfo } from '../../../contract/internal/host-inventory.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { insertCheckpoint } from './checkpoint-store.ts'
import { captureError, operationError, Refused } from './errors.ts'
import { callHost, claimedRow, prepareCapture, type Job, type OperationKind } from './job.ts'
import { endAttempt, moveWorkspace } from './store.ts'
import { readMachineRow, isHibernated, type MachineRow, LostRace } from '../machines/machine-row-store.ts'
import { unpause, wakeAfterEarlier } from './suspend.ts'
import { workspaceSubject } from '../host/subject.ts'

export const snapshot = copying('snapshot', capture)

/** Captures the disk alone. Other machines start from this layer; no restore uses it. */
export const layerSnapshot = copying('layer', captureDisk)

type Capture = (job: Job, seen: MachineRow) => Promise<CheckpointInfo>

function copying(kind: 'snapshot' | 'layer', capture: Capture): OperationKind {
  return {
    async drive(job) {
      const { cell, operation } = job
      const seen = await claimedRow(job)
      if (operation.attempt > 1) await wakeAfterEarlier(job, seen)
      await failpoint('snapshot.P2')
      await prepareCapture(job, seen.id) // changes by admitted calls end first; reads go on
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
  return seen.observed_state === 'running' && !isHibernated(seen) ? captureMachine(job, seen, {}) : copyCheckpoint(job, seen, {})
}

function captureDisk(job: Job, seen: MachineRow): Promise<CheckpointInfo> {
  if (seen.observed_state !== 'running') throw new Refused(NOT_RUNNING) // the machine has ended since the request
  return isHibernated(seen) ? copyCheckpoint(job, seen, { disk_only: true }) : captureMachine(job, seen, { disk_only: true })
}

type What = { disk_only?: true }

function captureMachine(job: Job, seen: MachineRow, what: What): Promise<CheckpointInfo> {
  const how = { checkpoint_id: job.cell.ids.next(), then: 'running', ...what } as const
  return callHost(job, seen.id, 'capture', seen.ownership_epoch, (fence) => job.cell.host.checkpoint({ ...fence, ...how }))
}

function copyCheckpoint(job: Job, seen: MachineRow, what: What): Promise<CheckpointInfo> {
  if (seen.checkpoint_id === null) throw new LostRace('The sleeping workspace')
  const source = {
    source: workspaceSubject(seen.id),
    source_checkpoint_id: seen.checkpoint_id,
    checkpoint_id: job.cell.ids.next(),
    ...what,
  }
  return callHost(job, seen.id, 'capture', seen.ownership_epoch, (fence) => job.cell.host.cloneCheckpoint({ ...fence, ...source }))
}

const NOT_RUNNING = operationError('checkpoint_failed', 'The workspace does not run any more', { reason: 'not_running' })

function labelOf(job: Job): string | null {
  const { label } = job.operation.input
  return typeof label === 'string' ? label : null
}
