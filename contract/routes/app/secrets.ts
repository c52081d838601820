import Type from 'typebox'
import { administrators, operators, readers } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { LIMITS } from '../../limits.ts'
import { appRoute } from '../../route.ts'
import { PageQuery, Uuid } from '../../schemas/common.ts'
import {
  OrganizationSecretCreate,
  Secret,
  SecretCreate,
  SecretList,
  SecretQuery,
  SecretUpdate,
  SecretVersion,
  SecretVersionCreate,
  SecretVersionList,
  WorkspaceSecrets,
  WorkspaceSecretsRequest,
} from '../../schemas/secrets.ts'
import { workspaceParams } from './workspaces.ts'

const projectParams = Type.Object({ project_id: Uuid() })
const organizationParams = Type.Object({ organization_id: Uuid() })
const secretParams = Type.Object({ secret_id: Uuid() })
const BAD_VALUE = ['nul_character', 'too_large'] as const
const CREATE_ERRORS = {
  not_found: NO_REASON,
  quota_exceeded: NO_REASON,
  conflict: ['name_taken'],
  validation_failed: ['reserved_prefix', ...BAD_VALUE],
} as const

export const secretsList = appRoute({
  id: 'secrets.list',
  method: 'GET',
  path: '/v1/projects/{project_id}/secrets',
  summary: "The project's own secrets without their values, newest first",
  access: readers('project'),
  params: projectParams,
  query: SecretQuery,
  answers: { 200: { schema: SecretList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const secretsCreate = appRoute({
  id: 'secrets.create',
  method: 'POST',
  path: '/v1/projects/{project_id}/secrets',
  summary: 'Keep a value that commands of workspaces can be given in their environment',
  access: administrators('project'),
  params: projectParams,
  body: SecretCreate,
  body_bytes_max: LIMITS.secret.body_bytes_max,
  answers: { 201: { schema: Secret, description: 'The secret, without its value' } },
  errors: CREATE_ERRORS,
})

export const secretsListOfOrganization = appRoute({
  id: 'secrets.list_of_organization',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/secrets',
  summary: 'Secrets of the organization as a whole, newest first',
  access: { ...readers('organization'), keys: 'forbidden' },
  params: organizationParams,
  query: SecretQuery,
  answers: { 200: { schema: SecretList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const secretsCreateOfOrganization = appRoute({
  id: 'secrets.create_of_organization',
  method: 'POST',
  path: '/v1/organizations/{organization_id}/secrets',
  summary: "A secret of all projects of the organization, or of some; a project's own of the same name wins",
  access: administrators('organization', 'forbidden'),
  params: organizationParams,
  body: OrganizationSecretCreate,
  body_bytes_max: LIMITS.secret.body_bytes_max,
  answers: { 201: { schema: Secret, description: 'The secret, without its value' } },
  errors: CREATE_ERRORS,
})

export const secretsGet = appRoute({
  id: 'secrets.get',
  method: 'GET',
  path: '/v1/secrets/{secret_id}',
  summary: 'One secret, never its value; a deleted one stays readable',
  access: readers('secret'),
  params: secretParams,
  answers: { 200: { schema: Secret, description: 'The secret' } },
  errors: { not_found: NO_REASON },
})

export const secretsUpdate = appRoute({
  id: 'secrets.update',
  method: 'PATCH',
  path: '/v1/secrets/{secret_id}',
  summary: 'Say anew what a secret is for and what may use it; its name stays',
  access: administrators('secret'),
  params: secretParams,
  body: SecretUpdate,
  answers: { 200: { schema: Secret, description: 'The secret' } },
  errors: { not_found: NO_REASON, conflict: ['secret_deleted'], validation_failed: NO_REASON },
})

export const secretsDelete = appRoute({
  id: 'secrets.delete',
  method: 'DELETE',
  path: '/v1/secrets/{secret_id}',
  summary: 'Erase every value and free the name; workspaces are not bound to it any more',
  access: administrators('secret'),
  params: secretParams,
  answers: { 204: { description: 'It is deleted; repeating says the same' } },
  errors: { not_found: NO_REASON },
})

export const secretVersionsList = appRoute({
  id: 'secret-versions.list',
  method: 'GET',
  path: '/v1/secrets/{secret_id}/versions',
  summary: 'The versions of a secret without their values, newest first',
  access: readers('secret'),
  params: secretParams,
  query: Type.Object(PageQuery),
  answers: { 200: { schema: SecretVersionList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const secretVersionsCreate = appRoute({
  id: 'secret-versions.create',
  method: 'POST',
  path: '/v1/secrets/{secret_id}/versions',
  summary: 'Rotate: another value, used from the next start on; the values before are erased',
  access: administrators('secret'),
  idempotent: true,
  params: secretParams,
  body: SecretVersionCreate,
  body_bytes_max: LIMITS.secret.body_bytes_max,
  answers: { 201: { schema: SecretVersion, description: 'The new version, without its value' } },
  errors: { not_found: NO_REASON, conflict: ['secret_deleted', 'concurrent_rotation'], validation_failed: BAD_VALUE },
})

export const workspacesSecrets = appRoute({
  id: 'workspaces.secrets',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/secrets',
  summary: 'Names of the secrets that are bound to a workspace, and whether it gets them',
  access: readers('workspace'),
  params: workspaceParams,
  answers: { 200: { schema: WorkspaceSecrets, description: 'By name' } },
  errors: { not_found: NO_REASON },
})

export const workspacesSetSecrets = appRoute({
  id: 'workspaces.set_secrets',
  method: 'PUT',
  path: '/v1/workspaces/{workspace_id}/secrets',
  summary: 'Bind these secrets and no others, from the next start of a command or terminal on',
  revokes: 'workspace',
  access: operators('workspace'),
  params: workspaceParams,
  body: WorkspaceSecretsRequest,
  answers: { 200: { schema: WorkspaceSecrets, description: 'By name' } },
  errors: { not_found: NO_REASON, conflict: ['workspace_deleted'], validation_failed: ['secret_not_available', 'env_collision'] },
})
