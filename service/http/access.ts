import { toolsOf, type Access, type PrincipalAccess, type Role } from '../../contract/access.ts'
import { LIMITS } from '../../contract/limits.ts'
import { TOOLS, type Tool } from '../../contract/tools.ts'
import { fail } from '../lib/fail.ts'
import type { ApiKeyPrincipal, Who } from './call.ts'

/** Refuses callers of a kind that the route does not accept, before the body is read. Pure. */
export function refuseKind(access: Access, who: Who): void {
  switch (access.kind) {
    case 'anyone':
      return
    case 'tool_token':
      return refuseTool(access.tool, who)
    case 'principal':
      if (who.type === 'tool_token') throw fail('unauthenticated', null, 'A tool token is no credential of this route')
      if (who.type === 'api_key') refuseKey(access)
  }
}

function refuseTool(tool: Extract<Access, { kind: 'tool_token' }>['tool'], who: Who): void {
  if (who.type !== 'tool_token') throw fail('unauthenticated', null, 'The call needs a tool token')
  if (tool !== 'any' && !who.tools.includes(tool)) {
    throw fail('forbidden', null, `The token does not include the tool ${tool}`, { details: { tool } })
  }
}

function refuseKey({ keys }: PrincipalAccess): void {
  switch (keys) {
    case 'any':
      return
    case 'with_tool': // checked by `refuseToolless`, which needs the body
      return
    case 'forbidden':
      throw fail('forbidden', null, 'Only a person may do this')
    case 'unknown':
      throw fail('unauthenticated', null, 'This needs the session of a person: an API key is none')
  }
}

export function refuseToolless(access: PrincipalAccess, who: ApiKeyPrincipal, body: unknown): void {
  if (access.keys !== 'with_tool' || who.tool_permissions.length > 0) return
  throw fail('forbidden', access.refused_as ?? null, 'The API key permits no tool', { details: deniedTools(body) })
}

export function refuseRole(access: PrincipalAccess, role: Role, body: unknown): void {
  if (access.roles.includes(role)) return
  const details = toolsOf(role).length === 0 ? deniedTools(body) : {}
  throw fail(
    'forbidden',
    access.refused_as ?? null,
    `Your role in this organization may not do this: it takes ${access.roles.join(' or ')}`,
    { details },
  )
}

/** Details for a caller without any tool (App, "Application API codes"). */
function deniedTools(body: unknown): { denied_tools: Tool[]; permitted_tools: [] } {
  const asked = (body as { tools?: unknown } | undefined)?.tools
  return { denied_tools: Array.isArray(asked) ? asked.filter(isTool) : [], permitted_tools: [] }
}

function isTool(name: unknown): name is Tool {
  return TOOLS.some((tool) => tool === name)
}

export function refuseStale(access: Pick<PrincipalAccess, 'step_up'>, stepped_up_at: Date | null, now: Date): void {
  if (access.step_up !== true) return
  const is_fresh = stepped_up_at !== null && now.getTime() - stepped_up_at.getTime() < LIMITS.credential.step_up_seconds * 1000
  if (!is_fresh) throw fail('step_up_required', null, 'This needs a password check within the last 10 minutes')
}
