import { ANYONE, operators, readers } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { AgentSessionList, AgentSessionQuery, ToolToken, ToolTokenKeys, ToolTokenRequest } from '../../schemas/tool-tokens.ts'
import { workspaceParams } from './workspaces.ts'

export const toolTokensCreate = appRoute({
  id: 'tool-tokens.create',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/tool-tokens',
  summary: "A token for the workspace's tools",
  access: operators('workspace', 'with_tool'),
  params: workspaceParams,
  body: ToolTokenRequest,
  body_optional: true,
  answers: { 201: { schema: ToolToken, description: 'The token' } },
  errors: {
    not_found: NO_REASON,
    forbidden: NO_REASON,
    conflict: ['workspace_deleted', 'operation_in_progress', 'workspace_not_running', 'not_running'],
    dependency_unavailable: ['signing_failed'],
  },
})

export const agentSessionsList = appRoute({
  id: 'agent-sessions.list',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/agent-sessions',
  summary: 'Agent sessions of a workspace, newest first',
  access: readers('workspace'),
  params: workspaceParams,
  query: AgentSessionQuery,
  answers: { 200: { schema: AgentSessionList, description: 'Agent sessions' } },
  errors: { not_found: NO_REASON },
})

export const toolTokenKeys = appRoute({
  id: 'tool-tokens.keys',
  method: 'GET',
  path: '/v1/.well-known/tool-token-keys',
  summary: 'Keys that verify tool tokens',
  access: ANYONE,
  answers: { 200: { schema: ToolTokenKeys, headers: { 'Cache-Control': 'public, max-age=60' }, description: 'A JSON Web Key Set' } },
  errors: { dependency_unavailable: NO_REASON },
})
