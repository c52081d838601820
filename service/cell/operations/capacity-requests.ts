import type { Resources } from '../../db/column-types.ts'
import type { CapacityRequest } from '../capacity/allocator.ts'
import { preCaptureOf, type KnownKind } from './begin.ts'
import type { Queued } from './queue-store.ts'
import type { MachineRow } from '../machines/machine-row-store.ts'

export interface OperationCapacityRequest extends CapacityRequest {
  required: Resources
}

/** @returns null if the operation needs no capacity, or has reserved it already */
export function wantOf(known: KnownKind | undefined, { operation, row }: Queued): OperationCapacityRequest | null {
  const required = known === undefined || hasRoom(operation) ? null : capacityFor(known, row)
  if (required === null) return null
  const { memory_mib, disk_gib } = required
  const { organization_id } = row
  return { id: operation.id, organization_id, memory_mib, disk_gib, since: operation.created_at, is_call: false, required }
}

/** A fork that was interrupted during its capture before the wait has reserved nothing. */
function hasRoom(operation: Queued['operation']): boolean {
  return operation.state === 'running' && (operation.progress.reserved !== undefined || preCaptureOf(operation) === undefined)
}

/** A hibernated workspace still occupies its disk, so it requests memory alone. */
function capacityFor({ starts, replaces }: KnownKind, { ceilings, grants, residency, observed_state }: MachineRow): Resources | null {
  if (starts) return ceilings
  const sleeps = observed_state === 'running' && residency === 'hibernated'
  return replaces && sleeps ? { ...(grants ?? ceilings), disk_gib: 0 } : null
}
