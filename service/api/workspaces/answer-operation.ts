import type { AuditTarget } from '../../core/changes/audit.ts'
import type { Reader } from '../../db/reader.ts'
import type { CommandResult } from '../calls/idempotency/change.ts'
import { readOperation } from './operations/store.ts'
import { operationView } from './operations/view.ts'
import { readWorkspace } from './store.ts'
import { workspaceView } from './view.ts'

export function workspaceSubject(
  { id, organization_id, project_id }: { id: string; organization_id: string; project_id: string },
  details: NonNullable<AuditTarget['details']> = {},
): AuditTarget {
  return { kind: 'workspace', id, organization_id, project_id, details }
}

export interface WorkspaceCommandResult extends CommandResult {
  workspace_id: string
}

/** `changed` is false if the call joins a running operation. */
export function workspaceCommandResult(
  { id, organization_id, project_id }: { id: string; organization_id: string; project_id: string },
  came: { status: number; operation_id: string | null; changed: boolean },
): WorkspaceCommandResult {
  const { status, operation_id, changed } = came
  const scope = { organization_id, project_id }
  return { status, scope, workspace_id: id, operation_id, changed: changed ? { kind: 'workspace', id } : null }
}

export async function operationBody(reads: Reader, { operation_id }: WorkspaceCommandResult) {
  const row = operation_id === null ? null : await readOperation(reads, operation_id)
  if (row === null) throw new Error('an operation is gone that a change has just named')
  return operationView(row)
}

export async function operationAndWorkspaceBody(reads: Reader, worked: WorkspaceCommandResult) {
  return { operation: await operationBody(reads, worked), workspace: await workspaceBody(reads, worked) }
}

export async function workspaceBody(reads: Reader, { workspace_id }: WorkspaceCommandResult) {
  const row = await readWorkspace(reads, workspace_id)
  if (row === null) throw new Error('a workspace is gone that a change has just named')
  return workspaceView(row)
}
