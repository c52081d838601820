import Type from 'typebox'
import { operators, readers, type PrincipalAccess } from '../../access.ts'
import { policyIssues } from '../../egress/check.ts'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { IfMatch, PageQuery, Uuid } from '../../schemas/common.ts'
import {
  EgressDenialList,
  EgressPolicyRequest,
  EgressVersionList,
  ProjectEgressPolicy,
  WorkspaceEgressPolicy,
} from '../../schemas/egress.ts'
import { workspaceParams } from './workspaces.ts'

const projectParams = Type.Object({ project_id: Uuid() })
const etag = { ETag: 'The version, quoted' }

/** Who may change a project's policy (App, "Egress policy"). */
const PROJECT_WRITERS: PrincipalAccess = { kind: 'principal', within: 'project', roles: ['owner', 'admin'], keys: 'with_tool' }

export const projectEgressGet = appRoute({
  id: 'egress.project_get',
  method: 'GET',
  path: '/v1/projects/{project_id}/egress-policy',
  summary: 'What the workspaces of a project may reach, where they have no policy of their own',
  access: readers('project'),
  params: projectParams,
  answers: {
    200: { schema: ProjectEgressPolicy, headers: etag, description: 'The policy; allow_all at version 0 where nobody has set one' },
  },
  errors: { not_found: NO_REASON },
})

export const projectEgressPut = appRoute({
  id: 'egress.project_put',
  method: 'PUT',
  path: '/v1/projects/{project_id}/egress-policy',
  summary: 'Set what the workspaces of a project may reach: a new version, in force on running machines at once',
  revokes: 'project',
  access: PROJECT_WRITERS,
  params: projectParams,
  headers: IfMatch,
  body: EgressPolicyRequest,
  check_body: policyIssues,
  answers: { 200: { schema: ProjectEgressPolicy, headers: etag, description: 'The new version' } },
  errors: { not_found: NO_REASON, conflict: ['version_mismatch'] },
})

export const projectEgressVersions = appRoute({
  id: 'egress.project_versions',
  method: 'GET',
  path: '/v1/projects/{project_id}/egress-policy/versions',
  summary: "Versions of a project's policy, newest first",
  access: readers('project'),
  params: projectParams,
  query: Type.Object(PageQuery),
  answers: { 200: { schema: EgressVersionList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const workspaceEgressGet = appRoute({
  id: 'egress.workspace_get',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/egress-policy',
  summary: 'What a workspace may reach, whose policy that is, and whether its host enforces it',
  access: readers('workspace'),
  params: workspaceParams,
  answers: { 200: { schema: WorkspaceEgressPolicy, headers: etag, description: 'The policy and its enforcement' } },
  errors: { not_found: NO_REASON },
})

export const workspaceEgressPut = appRoute({
  id: 'egress.workspace_put',
  method: 'PUT',
  path: '/v1/workspaces/{workspace_id}/egress-policy',
  summary: "Set a policy of the workspace's own in the place of its project's: a new version, in force on its machine at once",
  access: operators('workspace'),
  params: workspaceParams,
  headers: IfMatch,
  body: EgressPolicyRequest,
  check_body: policyIssues,
  answers: { 200: { schema: WorkspaceEgressPolicy, headers: etag, description: 'The new version' } },
  errors: {
    not_found: NO_REASON,
    forbidden: NO_REASON,
    conflict: ['workspace_deleted', 'version_mismatch'],
    validation_failed: ['egress_widening'],
  },
})

export const workspaceEgressDelete = appRoute({
  id: 'egress.workspace_delete',
  method: 'DELETE',
  path: '/v1/workspaces/{workspace_id}/egress-policy',
  summary: "Take the workspace's own policy back: its project's holds again",
  revokes: 'workspace',
  access: operators('workspace'),
  params: workspaceParams,
  headers: IfMatch,
  answers: { 204: { headers: etag, description: 'A cleared version is recorded, or none where no override was active' } },
  errors: { not_found: NO_REASON, forbidden: NO_REASON, conflict: ['workspace_deleted', 'version_mismatch'] },
})

export const workspaceEgressVersions = appRoute({
  id: 'egress.workspace_versions',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/egress-policy/versions',
  summary: 'Versions of the override, cleared ones among them, newest first',
  access: readers('workspace'),
  params: workspaceParams,
  query: Type.Object(PageQuery),
  answers: { 200: { schema: EgressVersionList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const workspaceEgressDenials = appRoute({
  id: 'egress.workspace_denials',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/egress-policy/denials',
  summary: 'What the workspace asked for in the last 24 hours and its policy refused, newest first: a few seconds old',
  access: readers('workspace'),
  params: workspaceParams,
  answers: { 200: { schema: EgressDenialList, description: 'All that is kept, on one page' } },
  errors: { not_found: NO_REASON },
})
