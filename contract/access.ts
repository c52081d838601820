import { TOOLS, type Tool } from './tools.ts'

/** Roles in an organization (App, "Organization"). */
export const ROLES = ['owner', 'admin', 'member', 'billing'] as const
export type Role = (typeof ROLES)[number]

/** Tools of a role: docs/decisions/http-api.md. */
export function toolsOf(role: Role): readonly Tool[] {
  return role === 'billing' ? [] : TOOLS
}

/**
 * Which API keys a route accepts:
 * - with_tool: keys that permit at least one tool; others get 403;
 * - forbidden: none, the route is for people; a key gets 403;
 * - unknown: none, because sign-in routes do not accept a key as a credential; a key gets 401.
 */
export type KeyAccess = 'any' | 'with_tool' | 'forbidden' | 'unknown'

/** Roles that this role may give and remove. */
export function grantableBy(role: Role): readonly Role[] {
  if (role === 'owner') return ROLES
  return role === 'admin' ? ['admin', 'member', 'billing'] : []
}

/** The object whose organization decides the caller's role. self: the caller's own account. */
export type Within = 'self' | 'organization' | 'project' | 'workspace' | 'operation' | 'secret' | 'template' | 'template_build' | 'upload'

/**
 * - principal: a project API key or a person's session. `step_up` requires a password check within the last `step_up_seconds` (App,
 * "Authentication" 2). `unfinished` also admits a session without its second factor or a verified address. `refused_as`: the reason of the
 * refusal;
 * - tool_token: 'any' requires no tool.
 */
export type Access =
  | { kind: 'anyone' }
  | {
      kind: 'principal'
      within: Within
      roles: readonly Role[]
      keys: KeyAccess
      step_up?: true
      unfinished?: true
      refused_as?: 'template_dev_mode_role'
    }
  | { kind: 'tool_token'; tool: Tool | 'any' }

export type PrincipalAccess = Extract<Access, { kind: 'principal' }>

export const ANYONE: Access = { kind: 'anyone' }

export const PAYER_ROLES = ['owner', 'admin', 'billing'] as const satisfies readonly Role[]

/** No API keys, because a leaked key must not raise a cap. */
export const PAYERS: PrincipalAccess = { kind: 'principal', within: 'organization', roles: PAYER_ROLES, keys: 'forbidden' }

export function readers(within: Within): PrincipalAccess {
  return { kind: 'principal', within, roles: ROLES, keys: 'any' }
}

export function operators(within: Within, keys: KeyAccess = 'any'): PrincipalAccess {
  return { kind: 'principal', within, roles: ['owner', 'admin', 'member'], keys }
}

export function administrators(within: Within, keys: KeyAccess = 'any'): PrincipalAccess {
  return { kind: 'principal', within, roles: ['owner', 'admin'], keys }
}

export function ofSessions(options: Pick<PrincipalAccess, 'step_up' | 'unfinished'> = {}): PrincipalAccess {
  return { kind: 'principal', within: 'self', roles: ROLES, keys: 'unknown', ...options }
}

export function toolToken<T extends Tool | 'any'>(tool: T): { kind: 'tool_token'; tool: T } {
  return { kind: 'tool_token', tool }
}

/** @returns 'any': any tool token is accepted; null: none is. */
export function toolOf({ access }: { access: Access }): Tool | 'any' | null {
  return access.kind === 'tool_token' ? access.tool : null
}

export function dependsOnRole({ roles }: PrincipalAccess): boolean {
  return ROLES.some((role) => !roles.includes(role))
}

/** Whether the route can answer 403 without a reason. */
export function mayForbid(access: Access): boolean {
  if (access.kind === 'principal') return dependsOnRole(access) || access.keys === 'forbidden' || access.keys === 'with_tool'
  return access.kind === 'tool_token'
}
