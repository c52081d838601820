import { operators } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { Operation } from '../../schemas/operations.ts'
import {
  ForkRequest,
  ForkTreeRequest,
  OpenResponse,
  OperationAndWorkspace,
  ResumeRequest,
  SuspendWhenIdleRequest,
  SuspendWhenIdleResponse,
  Workspace,
  WorkspaceOnly,
} from '../../schemas/workspaces.ts'
import { preferenceApplied, startErrors, workspaceParams } from './workspaces.ts'

export const workspacesSuspend = appRoute({
  id: 'workspaces.suspend',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/suspend',
  summary: 'Checkpoint memory, processes and disk, and release the compute',
  access: operators('workspace'),
  idempotent: true,
  params: workspaceParams,
  answers: { 202: { schema: Operation, description: 'The suspend operation' } },
  errors: {
    not_found: NO_REASON,
    forbidden: NO_REASON,
    conflict: ['workspace_deleted', 'not_supported_for_mode', 'session_lifetime', 'operation_in_progress', 'not_running'],
  },
})

export const workspacesResume = appRoute({
  id: 'workspaces.resume',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/resume',
  summary: 'Resume a suspended workspace, or join its start in progress',
  access: operators('workspace'),
  idempotent: true,
  waits: true,
  params: workspaceParams,
  body: ResumeRequest,
  body_optional: true,
  answers: {
    200: { schema: OpenResponse, headers: preferenceApplied, description: 'Running: with Prefer: wait only' },
    202: { schema: OperationAndWorkspace, headers: preferenceApplied, description: 'The resume or open operation' },
  },
  errors: {
    ...startErrors,
    not_found: NO_REASON,
    forbidden: NO_REASON,
    conflict: ['workspace_deleted', 'not_supported_for_mode', 'operation_in_progress', 'already_running', 'not_suspended'],
  },
})

export const workspacesFork = appRoute({
  id: 'workspaces.fork',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/fork',
  summary: 'Copy a running or suspended workspace under a new key; forks of one workspace at once share one capture',
  access: operators('workspace'),
  idempotent: true,
  params: workspaceParams,
  body: ForkRequest,
  answers: { 202: { schema: OperationAndWorkspace, description: 'The fork operation and the new workspace' } },
  errors: {
    ...startErrors,
    not_found: NO_REASON,
    forbidden: NO_REASON,
    conflict: ['workspace_deleted', 'not_supported_for_mode', 'key_in_use', 'operation_in_progress', 'not_forkable'],
    validation_failed: ['reserved_key_prefix'],
  },
})

const { entitlement_required, allowance_exhausted } = startErrors

export const workspacesForkTree = appRoute({
  id: 'workspaces.fork_tree',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/tree/fork',
  summary: 'Begin a file-first workspace under a new key with the files of another one; nothing is copied',
  access: operators('workspace'),
  idempotent: true,
  params: workspaceParams,
  body: ForkTreeRequest,
  answers: { 201: { schema: WorkspaceOnly, description: 'The new workspace, which runs at once, at revision 0' } },
  errors: {
    entitlement_required,
    allowance_exhausted,
    not_found: NO_REASON,
    forbidden: NO_REASON,
    conflict: ['workspace_deleted', 'not_supported_for_mode', 'key_in_use', 'not_forkable'], // a tree workspace has no operation but its delete
    validation_failed: ['reserved_key_prefix'],
  },
})

export const workspacesClose = appRoute({
  id: 'workspaces.close',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/close',
  summary: 'End a session workspace; its key opens a new one',
  revokes: 'workspace',
  access: operators('workspace'),
  idempotent: true,
  params: workspaceParams,
  answers: { 202: { schema: Operation, description: 'The delete operation; repeating returns the active or last one' } },
  errors: { not_found: NO_REASON, forbidden: NO_REASON, conflict: ['workspace_deleted', 'not_session'] },
})

export const workspacesSuspendWhenIdle = appRoute({
  id: 'workspaces.suspend_when_idle',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/suspend-when-idle',
  summary: 'Suspend once the workspace has been idle for that long',
  access: operators('workspace'),
  idempotent: true,
  params: workspaceParams,
  body: SuspendWhenIdleRequest,
  answers: { 202: { schema: SuspendWhenIdleResponse, description: 'The request, or the suspend in progress' } },
  errors: {
    not_found: NO_REASON,
    forbidden: NO_REASON,
    conflict: ['workspace_deleted', 'not_supported_for_mode', 'session_lifetime', 'operation_in_progress', 'not_running'],
  },
})

export const workspacesCancelSuspendWhenIdle = appRoute({
  id: 'workspaces.cancel_suspend_when_idle',
  method: 'DELETE',
  path: '/v1/workspaces/{workspace_id}/suspend-when-idle',
  summary: 'Cancel the pending request; a suspend already started is not undone',
  access: operators('workspace'),
  params: workspaceParams,
  answers: { 200: { schema: Workspace, description: 'The workspace' } },
  errors: { not_found: NO_REASON, forbidden: NO_REASON },
})
