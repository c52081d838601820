import { TOOLS, type Tool } from './tools.ts'

/** A person's role in an organization: App, "Organization". */
export const ROLES = ['owner', 'admin', 'member', 'billing'] as const
export type Role = (typeof ROLES)[number]

/** The tools of a person in their organization: docs/decisions/0110. */
export function toolsOf(role: Role): readonly Tool[] {
  return role === 'billing' ? [] : TOOLS
}

/**
 * Which API keys a route takes:
 * - any: every key;
 * - with_tool: keys that permit at least one tool; the others are 403;
 * - forbidden: none, since only people may do this: 403;
 * - unknown: none, since a key is no credential of sign-in routes: 401.
 */
export type KeyAccess = 'any' | 'with_tool' | 'forbidden' | 'unknown'

/** The roles that a person may give to others, and take from them. */
export function grantableBy(role: Role): readonly Role[] {
  if (role === 'owner') return ROLES
  return role === 'admin' ? ['admin', 'member', 'billing'] : []
}

/** What a call names, and so the organization in which a person's role counts. self: nothing but the caller. */
export type Within = 'self' | 'organization' | 'project' | 'workspace' | 'operation' | 'secret' | 'template' | 'template_build' | 'upload'

/**
 * Who may call a route. The pipeline refuses everybody else:
 * - anyone: nobody is asked for a credential;
 * - principal: a project API key or a person's session. `roles` are those of a person that may; `step_up` asks a session for a password check
 *   within the last `step_up_seconds` (App, "Authentication" 2). `unfinished` takes a session, too, that waits for its second factor or
 *   whose person has not verified their address.
 *   `refused_as` is the reason that whoever else calls is told;
 * - tool_token: a tool token of the workspace that includes the tool; 'any' asks for none.
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

/** The roles that decide what an organization pays, and are told what it comes to. */
export const PAYER_ROLES = ['owner', 'admin', 'billing'] as const satisfies readonly Role[]

/** Who may decide what an organization pays: people alone. A key that leaked raises no cap. */
export const PAYERS: PrincipalAccess = { kind: 'principal', within: 'organization', roles: PAYER_ROLES, keys: 'forbidden' }

/** Whoever may know of it: every role, every key of the project. */
export function readers(within: Within): PrincipalAccess {
  return { kind: 'principal', within, roles: ROLES, keys: 'any' }
}

/** Whoever works with workspaces: people of the billing role see them, and change nothing of them. */
export function operators(within: Within, keys: KeyAccess = 'any'): PrincipalAccess {
  return { kind: 'principal', within, roles: ['owner', 'admin', 'member'], keys }
}

/** Whoever looks after an organization, and the keys of the project where no people are asked for. */
export function administrators(within: Within, keys: KeyAccess = 'any'): PrincipalAccess {
  return { kind: 'principal', within, roles: ['owner', 'admin'], keys }
}

/** Routes of sign-in that need a session: whoever's it is, and never a key. */
export function ofSessions(options: Pick<PrincipalAccess, 'step_up' | 'unfinished'> = {}): PrincipalAccess {
  return { kind: 'principal', within: 'self', roles: ROLES, keys: 'unknown', ...options }
}

/** @param tool the one that the token must include. */
export function toolToken<T extends Tool | 'any'>(tool: T): { kind: 'tool_token'; tool: T } {
  return { kind: 'tool_token', tool }
}

/** The tool that a route of the gateway asks for; 'any' of those that are no tool calls, null on the other surface. */
export function toolOf({ access }: { access: Access }): Tool | 'any' | null {
  return access.kind === 'tool_token' ? access.tool : null
}

/** Whether some role may not call it: the role of a person has to be looked up. */
export function dependsOnRole({ roles }: PrincipalAccess): boolean {
  return ROLES.some((role) => !roles.includes(role))
}

/** Whether a person or key that is known may be refused for what they are: 403 without a reason. */
export function mayForbid(access: Access): boolean {
  if (access.kind === 'principal') return dependsOnRole(access) || access.keys === 'forbidden' || access.keys === 'with_tool'
  return access.kind === 'tool_token'
}
