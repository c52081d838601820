import Type from 'typebox'
import { operators, readers } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { PageQuery } from '../../schemas/common.ts'
import { Port, PortCallback, PortLink, PortLinkRequest, PortList, PortNumber, PortToken, PortTokenRequest } from '../../schemas/ports.ts'
import { workspaceParams } from './workspaces.ts'

const portParams = Type.Object({ ...workspaceParams.properties, port: PortNumber })
const CHANGES = ['workspace_deleted', 'not_supported_for_mode'] as const

export const portsList = appRoute({
  id: 'ports.list',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/ports',
  summary: 'The ports of a workspace that are exposed, newest first',
  access: readers('workspace'),
  params: workspaceParams,
  query: Type.Object(PageQuery),
  answers: { 200: { schema: PortList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const portsGet = appRoute({
  id: 'ports.get',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/ports/{port}',
  summary: 'One port that is exposed, with how much it was used',
  access: readers('workspace'),
  params: portParams,
  answers: { 200: { schema: Port, description: 'The port' } },
  errors: { not_found: NO_REASON },
})

export const portsExpose = appRoute({
  id: 'ports.expose',
  method: 'PUT',
  path: '/v1/workspaces/{workspace_id}/ports/{port}',
  summary: 'Give a port a private URL; one that has it already stays as it is, with its tokens and links',
  access: operators('workspace'),
  params: portParams,
  answers: { 200: { schema: Port, description: 'The port' } },
  errors: { not_found: NO_REASON, quota_exceeded: NO_REASON, conflict: CHANGES },
})

export const portsClose = appRoute({
  id: 'ports.close',
  method: 'DELETE',
  path: '/v1/workspaces/{workspace_id}/ports/{port}',
  summary: 'Close a port: every token, link and callback URL of it is over, also when it is exposed again',
  revokes: 'workspace',
  access: operators('workspace'),
  params: portParams,
  answers: { 204: { description: 'It is not exposed; repeating says the same' } },
  errors: { not_found: NO_REASON, conflict: CHANGES },
})

export const portTokensCreate = appRoute({
  id: 'port-tokens.create',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/ports/{port}/tokens',
  summary: 'A token for requests to an exposed port',
  access: operators('workspace', 'with_tool'),
  params: portParams,
  body: PortTokenRequest,
  body_optional: true,
  answers: { 201: { schema: PortToken, description: 'The token, shown once' } },
  errors: { not_found: NO_REASON, quota_exceeded: NO_REASON, conflict: CHANGES },
})

export const portLinksCreate = appRoute({
  id: 'port-links.create',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/ports/{port}/links',
  summary: 'A link that lets whoever opens it in a browser into an exposed port',
  access: operators('workspace', 'with_tool'),
  params: portParams,
  body: PortLinkRequest,
  body_optional: true,
  answers: { 201: { schema: PortLink, description: 'The link, shown once' } },
  errors: { not_found: NO_REASON, quota_exceeded: NO_REASON, conflict: CHANGES, validation_failed: ['invalid_path'] },
})

export const portCallbacksCreate = appRoute({
  id: 'port-callbacks.create',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/ports/{port}/callback',
  summary: 'A URL for callers that can send no credential; the one before is over at once',
  revokes: 'workspace',
  access: operators('workspace', 'with_tool'),
  params: portParams,
  answers: { 201: { schema: PortCallback, description: 'The callback URL, shown once' } },
  errors: { not_found: NO_REASON, conflict: CHANGES },
})

export const portCallbacksDelete = appRoute({
  id: 'port-callbacks.delete',
  method: 'DELETE',
  path: '/v1/workspaces/{workspace_id}/ports/{port}/callback',
  summary: 'Revoke the callback URL of an exposed port',
  revokes: 'workspace',
  access: operators('workspace'),
  params: portParams,
  answers: { 204: { description: 'There is none; repeating says the same' } },
  errors: { not_found: NO_REASON, conflict: CHANGES },
})
