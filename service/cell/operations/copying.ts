import type { CheckpointInfo } from '../../../contract/internal/host-inventory.ts'
import { workspaceSubject } from '../host/subject.ts'
import { operationError, Refused } from './errors.ts'
import { callHost, type Job } from './job.ts'
import type { MachineRow } from '../machines/machine-row-store.ts'

/** The checkpoint of a source without a machine. null: a machine uses the source's disk. */
export function savedCheckpoint(source: MachineRow): string | null {
  return source.disk === null ? source.checkpoint_id : null
}

/** A running source continues to run after the capture. */
export function captureInto(job: Job, step: string, source: MachineRow, target: { id: string; epoch: number }): Promise<CheckpointInfo> {
  const { cell, operation } = job
  const checkpoint_id = cell.ids.next()
  const saved = savedCheckpoint(source)
  if (saved !== null) {
    const names = { source: workspaceSubject(source.id), source_checkpoint_id: saved, checkpoint_id }
    return callHost(job, target.id, step, target.epoch, (fence) => cell.host.cloneCheckpoint({ ...fence, ...names }))
  }
  const into = { into: workspaceSubject(target.id), into_fence: operation.fence, checkpoint_id, then: 'running' as const }
  return callHost(job, source.id, step, source.ownership_epoch, (fence) => cell.host.checkpoint({ ...fence, ...into }))
}

export function refuseSmallerMemory({ ceilings }: MachineRow, memory_mib: number, message: string): void {
  if (ceilings.memory_mib >= memory_mib) return
  const details = { reason: 'below_captured_memory', required: { memory_mib }, ceiling: { memory_mib: ceilings.memory_mib } }
  throw new Refused(operationError('invalid_resources', message, details))
}
