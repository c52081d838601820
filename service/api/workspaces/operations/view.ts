import type { Operation } from '../../../../contract/schemas/operations.ts'
import type { OperationState } from '../../../../contract/states/operation.ts'
import type { OperationError } from '../../../db/column-types.ts'

export const OPERATION_COLUMNS = [
  'id',
  'organization_id',
  'project_id',
  'workspace_id',
  'kind',
  'state',
  'state_reason',
  'created_at',
  'updated_at',
  'started_at',
  'completed_at',
  'error',
  'result',
  'input',
  'requested_by',
] as const

export interface OperationRow {
  id: string
  organization_id: string
  /** null: the operation concerns the whole organization. */
  project_id: string | null
  workspace_id: string | null
  kind: Operation['kind']
  state: OperationState
  state_reason: string | null
  created_at: Date
  updated_at: Date
  started_at: Date | null
  completed_at: Date | null
  error: OperationError | null
  result: Record<string, unknown> | null
  input: Record<string, unknown>
  requested_by: NonNullable<Operation['requested_by']> | null
}

export function operationView(row: OperationRow): Operation {
  return {
    id: row.id,
    kind: row.kind,
    state: row.state,
    state_reason: row.state_reason,
    workspace_id: row.workspace_id,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    started_at: row.started_at?.toISOString() ?? null,
    completed_at: row.completed_at?.toISOString() ?? null,
    error: row.error === null ? null : { ...row.error, details: row.error.details ?? {} },
    result: row.result,
    input: row.input,
    requested_by: row.requested_by,
  }
}
