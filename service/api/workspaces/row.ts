import type { TemplateSettings } from '../../../contract/schemas/template-settings.ts'
import type { Origin } from '../../../contract/schemas/workspaces.ts'
import { decide, type LockRole, type CommandFacts } from '../../../contract/states/commands.ts'
import type { ObservedState } from '../../../contract/states/machine.ts'
import type { IdleFacts } from '../../core/workspaces/idle.ts'
import type { Resources, StartupState } from '../../db/column-types.ts'
import { OPERATION_COLUMNS, type OperationRow } from './operations/view.ts'

export interface WorkspaceRow extends IdleFacts {
  id: string
  organization_id: string
  project_id: string
  key: string
  template_version_id: string
  observed_state: ObservedState
  desired_state: 'running' | 'suspended' | 'deleted'
  pending_reason: string | null
  ended_reason: string | null
  mode: 'processful' | 'file_first'
  purpose: 'standard' | 'template_draft' | 'template_test'
  disk_layout: 'legacy' | 'layered'
  origin: Origin | null
  caps: Partial<Resources>
  ceiling_cpu_millis: number
  ceiling_memory_mib: number
  ceiling_disk_gib: number
  grant_cpu_millis: number | null
  grant_memory_mib: number | null
  grant_disk_gib: number | null
  inputs: Record<string, string>
  startup: StartupState | null
  tree_revision: number | null
  cell_id: string | null
  ownership_epoch: number
  checkpoint_id: string | null
  background_seconds: number | null
  state_layers: string[] | null
  family_id: string | null
  created_at: Date
  updated_at: Date
  deleted_at: Date | null
  template_slug: string
  template_version: number
  template_defaults: TemplateSettings['defaults']
  cell_endpoint: string | null
  /** null: no operation. All `op_` columns are then null. */
  op_id: string | null
}

export function activeOperation(row: WorkspaceRow): OperationRow | null {
  if (row.op_id === null) return null
  const columns = row as unknown as Record<string, unknown>
  return Object.fromEntries(OPERATION_COLUMNS.map((name) => [name, columns[`op_${name}`]])) as unknown as OperationRow
}

export function seen(row: WorkspaceRow): CommandFacts {
  return {
    observed_state: row.observed_state,
    deleted: row.deleted_at !== null,
    mode: row.mode,
    lifetime: row.lifetime,
    held_by: heldBy(row),
  }
}

function heldBy(row: WorkspaceRow): LockRole | null {
  const active = activeOperation(row)
  if (active === null) return null
  if (active.kind === 'fork') return active.workspace_id === row.id ? 'fork_target' : 'fork_source'
  if (active.kind === 'adopt') return active.workspace_id === row.id ? 'adopt' : 'adopt_source'
  return active.kind
}

/** False while an operation runs: other commands are refused, and an open would join it. */
export function isRunning(row: WorkspaceRow): boolean {
  return decide(seen(row), 'open').kind === 'proceed' && row.desired_state === 'running'
}

/** See the specification (App, "Workspace (view)"). */
export function isReady(row: WorkspaceRow): boolean {
  return isRunning(row) && (row.startup === null || row.startup.state === 'ready')
}

export function familyOf({ id, family_id }: Pick<WorkspaceRow, 'id' | 'family_id'>): string {
  return family_id ?? id
}

export function ceilings(row: WorkspaceRow): Resources {
  return { cpu_millis: row.ceiling_cpu_millis, memory_mib: row.ceiling_memory_mib, disk_gib: row.ceiling_disk_gib }
}
