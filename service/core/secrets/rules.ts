import { TOOLS_OF_BINDINGS } from '../../../contract/schemas/secrets.ts'
import type { Tool } from '../../../contract/tools.ts'

/** What every login of a guest has, and a terminal beside that: machine/internal/agent/session, "environment". */
export const GUEST_VARIABLES: readonly string[] = ['HOME', 'USER', 'LOGNAME', 'SHELL', 'PATH', 'LANG', 'TERM']

/** Who may use a secret. Nulls: all. */
export interface SecretTerms {
  allowed_project_ids: readonly string[] | null
  allowed_workspace_ids: readonly string[] | null
  allowed_tools: readonly string[]
}

export interface SecretUser {
  project_id: string
  /** null: a workspace that is to be made, which nobody can have named. */
  workspace_id: string | null
}

/** Whether a workspace may use a live secret of its scope for this. Pure. */
export function mayUse(terms: SecretTerms, user: SecretUser, tools: readonly Tool[]): boolean {
  const { allowed_project_ids, allowed_workspace_ids, allowed_tools } = terms
  if (allowed_project_ids !== null && !allowed_project_ids.includes(user.project_id)) return false
  if (allowed_workspace_ids !== null && (user.workspace_id === null || !allowed_workspace_ids.includes(user.workspace_id))) return false
  return tools.every((tool) => allowed_tools.includes(tool))
}

/** App, "Workspace secrets replace": what is bound must be usable by commands and by terminals. Pure. */
export function mayBeBound(terms: SecretTerms, user: SecretUser): boolean {
  return mayUse(terms, user, TOOLS_OF_BINDINGS)
}

/** The first of these names, in the order of the alphabet, that is a variable of another origin already. Pure. */
export function collision(names: Iterable<string>, ...taken: Iterable<string>[]): string | null {
  const variables = new Set([...GUEST_VARIABLES, ...taken.flatMap((each) => [...each])])
  return [...names].sort().find((name) => variables.has(name)) ?? null
}
