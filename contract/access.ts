import { TOOLS, type Tool } from './tools.ts'

/** A person's role in an organization: App, "Organization". */
export const ROLES = ['owner', 'admin', 'member', 'billing'] as const
export type Role = (typeof ROLES)[number]

/** Returns the tools that a person of this role may use (docs/decisions/http-api.md). */
export function toolsOf(role: Role): readonly Tool[] {
  return role === 'billing' ? [] : TOOLS
}

/**
 * API keys that a route accepts:
 * - any: every key;
 * - with_tool: keys that permit at least one tool; others get 403;
 * - forbidden: none; the route is for people only, and a key gets 403;
 * - unknown: none; a key is no credential of sign-in routes, and gets 401.
 */
export type KeyAccess = 'any' | 'with_tool' | 'forbidden' | 'unknown'

/** Returns the roles that a person of this role may grant and remove. */
export function grantableBy(role: Role): readonly Role[] {
  if (role === 'owner') return ROLES
  return role === 'admin' ? ['admin', 'member', 'billing'] : []
}

/** The object that a call names. Its organization is the one in which the person's role counts. self: only the caller. */
export type Within = 'self' | 'organization' | 'project' | 'workspace' | 'operation' | 'secret' | 'template' | 'template_build' | 'upload'

/**
 * Callers that a route admits; the pipeline refuses all others:
 * - anyone: no credential needed;
 * - principal: a project API key or a person's session. `roles` are the admitted roles of a person. `step_up` requires a password check
 * within the last `step_up_seconds` (App, "Authentication" 2). `unfinished` also admits a session that waits for its second factor, or
 * whose person has no verified address. `refused_as` is the reason in the refusal of other callers;
 * - tool_token: a tool token of the workspace that includes the tool; 'any' requires no tool.
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

/** Roles that decide about an organization's payments, and read the amounts. */
export const PAYER_ROLES = ['owner', 'admin', 'billing'] as const satisfies readonly Role[]

/** Only people decide about payments: a leaked key must not raise a cap. */
export const PAYERS: PrincipalAccess = { kind: 'principal', within: 'organization', roles: PAYER_ROLES, keys: 'forbidden' }

/** Admits every role, and every key of the project. */
export function readers(within: Within): PrincipalAccess {
  return { kind: 'principal', within, roles: ROLES, keys: 'any' }
}

/** Admits callers that change workspaces; the billing role only reads them. */
export function operators(within: Within, keys: KeyAccess = 'any'): PrincipalAccess {
  return { kind: 'principal', within, roles: ['owner', 'admin', 'member'], keys }
}

/** Admits owners and admins, and the keys of the project unless `keys` says otherwise. */
export function administrators(within: Within, keys: KeyAccess = 'any'): PrincipalAccess {
  return { kind: 'principal', within, roles: ['owner', 'admin'], keys }
}

/** Admits any session, but no API key. */
export function ofSessions(options: Pick<PrincipalAccess, 'step_up' | 'unfinished'> = {}): PrincipalAccess {
  return { kind: 'principal', within: 'self', roles: ROLES, keys: 'unknown', ...options }
}

export function toolToken<T extends Tool | 'any'>(tool: T): { kind: 'tool_token'; tool: T } {
  return { kind: 'tool_token', tool }
}

/** Returns the tool that a gateway route requires; 'any': none; null: a route of the other surface. */
export function toolOf({ access }: { access: Access }): Tool | 'any' | null {
  return access.kind === 'tool_token' ? access.tool : null
}

/** Returns whether a role is excluded, so that the person's role must be read. */
export function dependsOnRole({ roles }: PrincipalAccess): boolean {
  return ROLES.some((role) => !roles.includes(role))
}

/** Returns whether an authenticated caller may get 403 without a reason. */
export function mayForbid(access: Access): boolean {
  if (access.kind === 'principal') return dependsOnRole(access) || access.keys === 'forbidden' || access.keys === 'with_tool'
  return access.kind === 'tool_token'
}
