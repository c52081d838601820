import { TOOLS_OF_BINDINGS } from '../../../contract/schemas/secrets.ts'
import type { Tool } from '../../../contract/tools.ts'

/** Variables of every login and terminal in a guest: machine/internal/agent/session, "environment". */
export const GUEST_VARIABLES: readonly string[] = ['HOME', 'USER', 'LOGNAME', 'SHELL', 'PATH', 'LANG', 'TERM']

/** Restrictions on the use of a secret. null: no restriction. */
export interface SecretTerms {
  allowed_project_ids: readonly string[] | null
  allowed_workspace_ids: readonly string[] | null
  allowed_tools: readonly string[]
}

export interface SecretUser {
  project_id: string
  /** null: a workspace that is not created yet, which no restriction can name. */
  workspace_id: string | null
}

/** Returns whether a workspace may use a live secret of its scope with these tools. Pure. */
export function mayUse(terms: SecretTerms, user: SecretUser, tools: readonly Tool[]): boolean {
  const { allowed_project_ids, allowed_workspace_ids, allowed_tools } = terms
  if (allowed_project_ids !== null && !allowed_project_ids.includes(user.project_id)) return false
  if (allowed_workspace_ids !== null && (user.workspace_id === null || !allowed_workspace_ids.includes(user.workspace_id))) return false
  return tools.every((tool) => allowed_tools.includes(tool))
}

/** Returns whether commands and terminals may use the secret, as a binding requires (App, "Workspace secrets replace"). Pure. */
export function mayBeBound(terms: SecretTerms, user: SecretUser): boolean {
  return mayUse(terms, user, TOOLS_OF_BINDINGS)
}

/** Returns the alphabetically first name that collides with another variable, else null. Pure. */
export function collision(names: Iterable<string>, ...taken: Iterable<string>[]): string | null {
  const variables = new Set([...GUEST_VARIABLES, ...taken.flatMap((each) => [...each])])
  return [...names].sort().find((name) => variables.has(name)) ?? null
}
