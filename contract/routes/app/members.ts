import Type from 'typebox'
import { administrators, readers } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { PageQuery, Uuid } from '../../schemas/common.ts'
import {
  ApiKey,
  ApiKeyCreate,
  ApiKeyCreated,
  ApiKeyList,
  ApiKeyQuery,
  ApiKeyUpdate,
  Invitation,
  InvitationAccept,
  InvitationCreate,
  InvitationList,
  Member,
  MemberList,
  MemberUpdate,
  NewName,
  Rename,
} from '../../schemas/members.ts'
import { Organization, Project } from '../../schemas/principals.ts'

const organizationParams = Type.Object({ organization_id: Uuid() })
const projectParams = Type.Object({ project_id: Uuid() })
const memberParams = Type.Object({ organization_id: Uuid(), person_id: Uuid() })
const invitationParams = Type.Object({ organization_id: Uuid(), invitation_id: Uuid() })
const keyParams = Type.Object({ project_id: Uuid(), api_key_id: Uuid() })

export const organizationsCreate = appRoute({
  id: 'organizations.create',
  method: 'POST',
  path: '/v1/organizations',
  summary: 'A new organization, which its maker owns',
  access: { ...readers('self'), keys: 'forbidden' },
  body: NewName,
  answers: { 201: { schema: Organization, description: 'The organization' } },
  errors: { conflict: ['name_taken'], quota_exceeded: NO_REASON },
})

export const organizationsUpdate = appRoute({
  id: 'organizations.update',
  method: 'PATCH',
  path: '/v1/organizations/{organization_id}',
  summary: 'Another name; the slug stays',
  access: administrators('organization', 'forbidden'),
  params: organizationParams,
  body: Rename,
  answers: { 200: { schema: Organization, description: 'The organization' } },
  errors: { not_found: NO_REASON },
})

export const projectsCreate = appRoute({
  id: 'projects.create',
  method: 'POST',
  path: '/v1/organizations/{organization_id}/projects',
  summary: 'A new project',
  access: administrators('organization', 'forbidden'),
  params: organizationParams,
  body: NewName,
  answers: { 201: { schema: Project, description: 'The project' } },
  errors: { not_found: NO_REASON, conflict: ['name_taken'], quota_exceeded: NO_REASON },
})

export const projectsUpdate = appRoute({
  id: 'projects.update',
  method: 'PATCH',
  path: '/v1/projects/{project_id}',
  summary: 'Another name; the slug stays',
  access: administrators('project', 'forbidden'),
  params: projectParams,
  body: Rename,
  answers: { 200: { schema: Project, description: 'The project' } },
  errors: { not_found: NO_REASON },
})

export const membersList = appRoute({
  id: 'members.list',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/members',
  summary: 'People of an organization, newest first',
  access: { ...readers('organization'), keys: 'forbidden' },
  params: organizationParams,
  query: Type.Object(PageQuery),
  answers: { 200: { schema: MemberList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const membersUpdate = appRoute({
  id: 'members.update',
  method: 'PATCH',
  path: '/v1/organizations/{organization_id}/members/{person_id}',
  summary: 'Another role. Only owners make owners, after a password check, and change the role of one',
  revokes: 'everywhere',
  access: administrators('organization', 'forbidden'),
  params: memberParams,
  body: MemberUpdate,
  answers: { 200: { schema: Member, description: 'The member' } },
  errors: { not_found: NO_REASON, conflict: ['last_owner'], step_up_required: NO_REASON },
})

export const membersDelete = appRoute({
  id: 'members.delete',
  method: 'DELETE',
  path: '/v1/organizations/{organization_id}/members/{person_id}',
  summary: 'Remove a member, as owner or admin, or leave. Only owners remove an owner',
  revokes: 'everywhere',
  access: { ...readers('organization'), keys: 'forbidden' },
  params: memberParams,
  answers: { 204: { description: 'They are no member any more' } },
  errors: { not_found: NO_REASON, conflict: ['last_owner'], forbidden: NO_REASON },
})

export const invitationsList = appRoute({
  id: 'invitations.list',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/invitations',
  summary: 'Invitations that wait to be accepted, newest first',
  access: administrators('organization', 'forbidden'),
  params: organizationParams,
  query: Type.Object(PageQuery),
  answers: { 200: { schema: InvitationList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const invitationsCreate = appRoute({
  id: 'invitations.create',
  method: 'POST',
  path: '/v1/organizations/{organization_id}/invitations',
  summary: 'Invite an address by a mail; only owners invite owners, after a password check',
  access: administrators('organization', 'forbidden'),
  params: organizationParams,
  body: InvitationCreate,
  answers: { 201: { schema: Invitation, description: 'The invitation. Its token is in the mail alone' } },
  errors: { not_found: NO_REASON, conflict: ['concurrent_invitation', null], quota_exceeded: NO_REASON, step_up_required: NO_REASON },
})

export const invitationsResend = appRoute({
  id: 'invitations.resend',
  method: 'POST',
  path: '/v1/organizations/{organization_id}/invitations/{invitation_id}/resend',
  summary: 'Another mail, and as many days again; the link before it is good no more',
  access: administrators('organization', 'forbidden'),
  params: invitationParams,
  answers: { 200: { schema: Invitation, description: 'The invitation' } },
  errors: { not_found: NO_REASON },
})

export const invitationsDelete = appRoute({
  id: 'invitations.delete',
  method: 'DELETE',
  path: '/v1/organizations/{organization_id}/invitations/{invitation_id}',
  summary: 'Take an invitation back; repeating says the same',
  access: administrators('organization', 'forbidden'),
  params: invitationParams,
  answers: { 204: { description: 'Its link is good no more' } },
  errors: { not_found: NO_REASON },
})

export const invitationsAccept = appRoute({
  id: 'invitations.accept',
  method: 'POST',
  path: '/v1/invitations/accept',
  summary: 'Become a member, by the token of the mail and with the address that it was sent to',
  access: { ...readers('self'), keys: 'forbidden' },
  body: InvitationAccept,
  answers: { 200: { schema: Organization, description: 'The organization, with the role in it' } },
  errors: { token_invalid: NO_REASON },
})

export const apiKeysList = appRoute({
  id: 'api-keys.list',
  method: 'GET',
  path: '/v1/projects/{project_id}/api-keys',
  summary: 'API keys of a project without their secrets, newest first',
  access: administrators('project', 'forbidden'),
  params: projectParams,
  query: ApiKeyQuery,
  answers: { 200: { schema: ApiKeyList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const apiKeysCreate = appRoute({
  id: 'api-keys.create',
  method: 'POST',
  path: '/v1/projects/{project_id}/api-keys',
  summary: 'A new API key of a project, after a password check',
  access: { ...administrators('project', 'forbidden'), step_up: true },
  params: projectParams,
  body: ApiKeyCreate,
  answers: { 201: { schema: ApiKeyCreated, description: 'The key, whole this once' } },
  errors: { not_found: NO_REASON, quota_exceeded: NO_REASON },
})

export const apiKeysGet = appRoute({
  id: 'api-keys.get',
  method: 'GET',
  path: '/v1/projects/{project_id}/api-keys/{api_key_id}',
  summary: 'One API key, never its secret; a revoked one stays readable',
  access: administrators('project', 'forbidden'),
  params: keyParams,
  answers: { 200: { schema: ApiKey, description: 'The key' } },
  errors: { not_found: NO_REASON },
})

export const apiKeysUpdate = appRoute({
  id: 'api-keys.update',
  method: 'PATCH',
  path: '/v1/projects/{project_id}/api-keys/{api_key_id}',
  summary: 'Another name, other tools, another end. Tokens that permit more than the key now does are refused within 30 seconds',
  revokes: 'everywhere',
  access: administrators('project', 'forbidden'),
  params: keyParams,
  body: ApiKeyUpdate,
  answers: { 200: { schema: ApiKey, description: 'The key' } },
  errors: { not_found: NO_REASON, conflict: NO_REASON },
})

export const apiKeysDelete = appRoute({
  id: 'api-keys.delete',
  method: 'DELETE',
  path: '/v1/projects/{project_id}/api-keys/{api_key_id}',
  summary: 'Revoke an API key; repeating says the same',
  revokes: 'everywhere',
  access: administrators('project', 'forbidden'),
  params: keyParams,
  answers: { 204: { description: 'It is good no more, and its tool tokens within 30 seconds' } },
  errors: { not_found: NO_REASON },
})
