import { fail, type Failure } from '../../../lib/fail.ts'
import type { DiskReadRequest } from '../../host/hostd-disks.ts'
import type { WorkspaceEntry } from '../../machines/table.ts'

export type DiskSource = Omit<DiskReadRequest, 'doubted_address'>

/** All callers use this rule. null: the workspace is not read from its disk. */
export function diskOf(entry: WorkspaceEntry): DiskSource | null {
  const sleeps = entry.observed_state === 'suspended' || (entry.observed_state === 'running' && entry.residency !== 'resident')
  if (!sleeps || entry.mode !== 'processful' || entry.disk_layout !== 'layered') return null
  return { workspace_id: entry.id, tenant: entry.organization_id, checkpoint_id: entry.checkpoint_id, layers: entry.layers }
}

/** The disk is a full copy of its template: such disks are not read. */
export function diskUnavailable(): Failure {
  return fail('workspace_not_running', 'offline_unavailable', 'The disk of this suspended workspace is not read: resume it')
}

export function isUnchanged(entry: WorkspaceEntry, now: WorkspaceEntry | undefined): boolean {
  if (now === undefined || now.ownership_epoch !== entry.ownership_epoch) return false
  const [before, after] = [diskOf(entry), diskOf(now)]
  return before !== null && after !== null && before.checkpoint_id === after.checkpoint_id
}
