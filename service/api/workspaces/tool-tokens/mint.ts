import { toolTokensCreate } from '../../../../contract/routes/app/tool-tokens.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Tool } from '../../../../contract/route.ts'
import type { ToolToken } from '../../../../contract/schemas/tool-tokens.ts'
import { auditEvent, type ChangeOrigin } from '../../../core/changes/audit.ts'
import type { AuditEvent } from '../../../core/changes/store.ts'
import type { Principal } from '../../../http/call.ts'
import { fail, Failure } from '../../../lib/fail.ts'
import { permittedTools } from '../../calls/scope.ts'
import type { WorkspaceRow } from '../row.ts'
import { budgetSeconds, countToken, dropOldSessions, type NewAgentSession } from './store.ts'
import type { CallDeps, ReadDeps } from '../../calls/deps.ts'
import type { WorkspaceDeps } from '../deps.ts'

export type MintDeps = ReadDeps & Pick<CallDeps, 'clock' | 'ids' | 'base_url' | 'logger'> & Pick<WorkspaceDeps, 'signer'>

type MintedFor = Pick<WorkspaceRow, 'id' | 'organization_id' | 'project_id' | 'cell_endpoint' | 'ownership_epoch'>

export interface TokenRequest {
  who: Principal
  now: Date
  agent_label: string | undefined
  tools: readonly Tool[]
}

const DEFAULT_LABEL = 'default'

export async function mintToken(deps: MintDeps, workspace: MintedFor, wish: TokenRequest, by: ChangeOrigin): Promise<ToolToken> {
  const session = newSession(deps, workspace, wish)
  const token = await countedToken(deps, workspace, wish, session, tokenEvent(by, workspace, session, wish))
  if (token !== null) return token
  const retry_after_seconds = await budgetSeconds(deps.reads, session)
  throw fail('rate_limited', null, 'The hourly number of tool tokens is used up', { retry_after_seconds })
}

/**
 * @returns null if no token can be issued: the caller still gets the workspace.
 * @param by null if the call's audit record covers the token.
 */
export async function mintTokenOrNull(
  deps: MintDeps,
  workspace: MintedFor,
  wish: TokenRequest,
  by: ChangeOrigin | null,
): Promise<ToolToken | null> {
  // The principal may have lost permissions since the first call.
  const permitted = permittedTools(wish.who, workspace.organization_id)
  if (wish.tools.length === 0 || wish.tools.some((tool) => !permitted.includes(tool))) return null
  if (workspace.cell_endpoint === null) return null
  const session = newSession(deps, workspace, wish)
  const event = by && tokenEvent(by, workspace, session, wish)
  return countedToken(deps, workspace, wish, session, event).catch((error: unknown) => {
    if (!(error instanceof Failure) || error.reason !== 'signing_failed') throw error
    deps.logger.error({ err: error }, 'a tool token could not be signed') // App, "Resume": "A token that cannot be issued is tool_token: null"
    return null
  })
}

/**
 * Signs before it counts: a failed signature uses no budget and leaves no record. Only the count finds an existing session. Its token is
 * signed again, which is cheaper than a query beforehand.
 * @returns null if the budget is exhausted.
 */
async function countedToken(
  deps: MintDeps,
  workspace: MintedFor,
  wish: TokenRequest,
  session: NewAgentSession,
  event: AuditEvent | null,
): Promise<ToolToken | null> {
  const token = await sign(deps, workspace, wish, session.id)
  const counted = await countToken(deps.reads, session, event)
  if (!counted) return null
  const { agent_session_id } = counted
  if (agent_session_id !== session.id) return sign(deps, workspace, wish, agent_session_id)
  await dropOldSessions(deps.reads, workspace.id)
  return token
}

function tokenEvent(
  by: ChangeOrigin,
  { id, organization_id, project_id }: MintedFor,
  { agent_label }: NewAgentSession,
  { tools }: TokenRequest,
): AuditEvent {
  return auditEvent(by, toolTokensCreate.id, { kind: 'workspace', id, organization_id, project_id, details: { agent_label, tools } })
}

function newSession(deps: MintDeps, workspace: MintedFor, { who, now, agent_label }: TokenRequest): NewAgentSession {
  return {
    id: deps.ids.next(),
    workspace_id: workspace.id,
    principal_type: who.type,
    principal_id: who.id,
    agent_label: agent_label ?? DEFAULT_LABEL,
    now,
  }
}

/** A person's token id contains the session's id, so that the token ends with the session. */
function tokenId(who: Principal, id: string): string {
  return who.type === 'user' ? `${who.session.id}.${id}` : id
}

async function sign(deps: MintDeps, workspace: MintedFor, { who, tools }: TokenRequest, sid: string): Promise<ToolToken> {
  const endpoint = workspace.cell_endpoint
  if (endpoint === null) throw fail('dependency_unavailable', 'signing_failed', 'The workspace has no gateway yet')
  // The call may have waited, so the clock is read again.
  const iat = Math.floor(deps.clock.now().getTime() / 1000)
  const exp = iat + LIMITS.credential.tool_token_seconds
  const claims = {
    iss: deps.base_url,
    aud: endpoint,
    sub: who.id,
    pty: who.type,
    org: workspace.organization_id,
    prj: workspace.project_id,
    ws: workspace.id,
    epoch: workspace.ownership_epoch,
    tools: [...tools],
    sid,
    iat,
    exp,
    jti: tokenId(who, deps.ids.next()),
  }
  const { token, kid } = await deps.signer.sign(claims).catch((cause: unknown) => {
    throw fail('dependency_unavailable', 'signing_failed', 'The token could not be signed', { cause })
  })
  return {
    token,
    token_type: 'Bearer',
    issued_at: new Date(iat * 1000).toISOString(),
    expires_at: new Date(exp * 1000).toISOString(),
    workspace_id: workspace.id,
    agent_session_id: sid,
    ownership_epoch: workspace.ownership_epoch,
    tools: [...tools],
    audience: endpoint,
    kid,
    cell_endpoint: endpoint,
  }
}
