import { TOOLS_OF_BINDINGS } from '../../../contract/schemas/secrets.ts'
import type { Tool } from '../../../contract/tools.ts'

/** Variables that the agent sets itself (machine/internal/agent/session, "environment"). */
export const GUEST_VARIABLES: readonly string[] = ['HOME', 'USER', 'LOGNAME', 'SHELL', 'PATH', 'LANG', 'TERM']

/** null: no restriction. */
export interface SecretTerms {
  allowed_project_ids: readonly string[] | null
  allowed_workspace_ids: readonly string[] | null
  allowed_tools: readonly string[]
}

export interface SecretUser {
  project_id: string
  /** null: the workspace is not created yet, so no restriction can name it. */
  workspace_id: string | null
}

export function mayUse(terms: SecretTerms, user: SecretUser, tools: readonly Tool[]): boolean {
  const { allowed_project_ids, allowed_workspace_ids, allowed_tools } = terms
  if (allowed_project_ids !== null && !allowed_project_ids.includes(user.project_id)) return false
  if (allowed_workspace_ids !== null && (user.workspace_id === null || !allowed_workspace_ids.includes(user.workspace_id))) return false
  return tools.every((tool) => allowed_tools.includes(tool))
}

/** Whether a secret may be bound (App, "Workspace secrets replace"). */
export function mayBeBound(terms: SecretTerms, user: SecretUser): boolean {
  return mayUse(terms, user, TOOLS_OF_BINDINGS)
}

export function collision(names: Iterable<string>, ...taken: Iterable<string>[]): string | null {
  const variables = new Set([...GUEST_VARIABLES, ...taken.flatMap((each) => [...each])])
  return [...names].sort().find((name) => variables.has(name)) ?? null
}
