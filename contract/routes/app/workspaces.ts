import Type from 'typebox'
import { NO_REASON, START_REASONS } from '../../errors.ts'
import { operators, readers } from '../../access.ts'
import { appRoute } from '../../route.ts'
import { Uuid } from '../../schemas/common.ts'
import { Operation } from '../../schemas/operations.ts'
import {
  IdlePolicyRequest,
  OpenRequest,
  OpenResponse,
  OrganizationWorkspaceQuery,
  Workspace,
  WorkspaceInputs,
  WorkspaceList,
  WorkspaceQuery,
} from '../../schemas/workspaces.ts'

export const workspaceParams = Type.Object({ workspace_id: Uuid() })
export const preferenceApplied = { 'Preference-Applied': 'wait=<seconds>, exactly when the server waited' }

export const startErrors = {
  ...START_REASONS,
  quota_exceeded: NO_REASON,
} as const

export const workspacesOpen = appRoute({
  id: 'workspaces.open',
  method: 'POST',
  path: '/v1/workspaces/open',
  summary: 'Open a key: create the workspace on first use, reconnect to it or start it afterwards',
  access: operators('project'),
  idempotent: true,
  waits: true,
  body: OpenRequest,
  answers: {
    200: { schema: OpenResponse, headers: preferenceApplied, description: 'Running and ready' },
    202: { schema: OpenResponse, headers: preferenceApplied, description: 'Its operation, to poll or to wait for' },
  },
  errors: {
    ...startErrors,
    forbidden: NO_REASON,
    not_found: ['version_not_found', ...NO_REASON],
    conflict: [
      'operation_in_progress',
      'workspace_deleted',
      'lifetime_mismatch',
      'session_lifetime',
      'mode_mismatch',
      'layout_unsupported',
      'template_archived',
    ],
    validation_failed: [
      'reserved_key_prefix',
      'mode_not_available',
      'not_supported_for_mode',
      'secret_not_available',
      'env_collision',
      'input_required',
      'input_unknown',
      'input_invalid',
    ],
  },
})

export const workspacesList = appRoute({
  id: 'workspaces.list',
  method: 'GET',
  path: '/v1/workspaces',
  summary: 'Workspaces, newest first; for an API key those of its project',
  access: readers('self'),
  query: WorkspaceQuery,
  answers: { 200: { schema: WorkspaceList, description: 'Workspaces' } },
  errors: {},
})

export const workspacesListOfOrganization = appRoute({
  id: 'workspaces.list_of_organization',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/workspaces',
  summary: 'Workspaces of an organization, newest first',
  access: readers('organization'),
  params: Type.Object({ organization_id: Uuid() }),
  query: OrganizationWorkspaceQuery,
  answers: { 200: { schema: WorkspaceList, description: 'Workspaces' } },
  errors: { not_found: NO_REASON },
})

export const workspacesGet = appRoute({
  id: 'workspaces.get',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}',
  summary: 'One workspace; a deleted one stays readable as a tombstone',
  access: readers('workspace'),
  params: workspaceParams,
  answers: { 200: { schema: Workspace, description: 'The workspace' } },
  errors: { not_found: NO_REASON },
})

export const workspacesDelete = appRoute({
  id: 'workspaces.delete',
  method: 'DELETE',
  path: '/v1/workspaces/{workspace_id}',
  summary: 'Delete a workspace; its key is never used again',
  revokes: 'workspace',
  access: operators('workspace'),
  idempotent: true,
  params: workspaceParams,
  answers: { 202: { schema: Operation, description: 'The delete operation; repeating returns the same' } },
  errors: { not_found: NO_REASON, forbidden: NO_REASON },
})

export const workspacesInputs = appRoute({
  id: 'workspaces.inputs',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/inputs',
  summary: 'Text inputs that the workspace was opened with',
  access: readers('workspace'),
  params: workspaceParams,
  answers: { 200: { schema: WorkspaceInputs, description: 'Name to value' } },
  errors: { not_found: NO_REASON },
})

export const workspacesIdlePolicy = appRoute({
  id: 'workspaces.idle_policy',
  method: 'PUT',
  path: '/v1/workspaces/{workspace_id}/idle-policy',
  summary: 'Set or clear the idle policy',
  access: operators('workspace'),
  params: workspaceParams,
  body: IdlePolicyRequest,
  answers: { 200: { schema: Workspace, description: 'The workspace' } },
  errors: { not_found: NO_REASON, forbidden: NO_REASON, conflict: ['session_lifetime', 'not_supported_for_mode', 'workspace_deleted'] },
})
