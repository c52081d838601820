import { TOOLS, type Tool } from './tools.ts'

/** App, "Organization". */
export const ROLES = ['owner', 'admin', 'member', 'billing'] as const
export type Role = (typeof ROLES)[number]

/** docs/decisions/http-api.md. */
export function toolsOf(role: Role): readonly Tool[] {
  return role === 'billing' ? [] : TOOLS
}

/**
 * API keys that a route accepts:
 * - with_tool: keys that permit at least one tool; others get 403;
 * - forbidden: the route is for people only, and a key gets 403;
 * - unknown: a key is no credential of sign-in routes, and gets 401.
 */
export type KeyAccess = 'any' | 'with_tool' | 'forbidden' | 'unknown'

/** Also the roles that a person may remove. */
export function grantableBy(role: Role): readonly Role[] {
  if (role === 'owner') return ROLES
  return role === 'admin' ? ['admin', 'member', 'billing'] : []
}

/** The person's role in the organization of this object counts. self: only the caller. */
export type Within = 'self' | 'organization' | 'project' | 'workspace' | 'operation' | 'secret' | 'template' | 'template_build' | 'upload'

/**
 * Callers that a route admits; the pipeline refuses all others:
 * - principal: a project API key or a person's session. `step_up` requires a password check within the last `step_up_seconds` (App,
 * "Authentication" 2). `unfinished` also admits a session that waits for its second factor, or whose person has no verified address.
 * `refused_as` is the reason in the refusal of other callers;
 * - tool_token: of the workspace, with the tool; 'any' requires no tool.
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

/** These roles also read the amounts. */
export const PAYER_ROLES = ['owner', 'admin', 'billing'] as const satisfies readonly Role[]

/** Only people decide about payments: a leaked key must not raise a cap. */
export const PAYERS: PrincipalAccess = { kind: 'principal', within: 'organization', roles: PAYER_ROLES, keys: 'forbidden' }

export function readers(within: Within): PrincipalAccess {
  return { kind: 'principal', within, roles: ROLES, keys: 'any' }
}

/** The billing role only reads workspaces. */
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

/** 'any': no tool; null: a route of the other surface. */
export function toolOf({ access }: { access: Access }): Tool | 'any' | null {
  return access.kind === 'tool_token' ? access.tool : null
}

/** Some role is excluded, so the person's role must be read. */
export function dependsOnRole({ roles }: PrincipalAccess): boolean {
  return ROLES.some((role) => !roles.includes(role))
}

/** Without a reason. */
export function mayForbid(access: Access): boolean {
  if (access.kind === 'principal') return dependsOnRole(access) || access.keys === 'forbidden' || access.keys === 'with_tool'
  return access.kind === 'tool_token'
}
