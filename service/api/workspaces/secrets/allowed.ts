import type { Reader } from '../../../db/reader.ts'
import { invalid } from './rules.ts'
import { unknownProjects, unknownWorkspaces } from './store.ts'

interface Owner {
  organization_id: string
  project_id: string | null
}

interface Allowed {
  allowed_project_ids?: readonly string[] | null
  allowed_workspace_ids?: readonly string[] | null
}

/** Checks only added ids. Earlier ids may remain, even if their objects are gone. */
export async function checkAllowed(reads: Reader, owner: Owner, asked: Allowed, before: Allowed = {}): Promise<void> {
  const { organization_id, project_id } = owner
  const added = (name: keyof Allowed) => (asked[name] ?? []).filter((id) => before[name]?.includes(id) !== true)
  if (project_id !== null && asked.allowed_project_ids) throw invalid('allowed_project_ids', "is for an organization's secret only")
  const projects = added('allowed_project_ids')
  if (projects.length > 0 && (await unknownProjects(reads, organization_id, projects)).length > 0) {
    throw invalid('allowed_project_ids', 'names what is no project of the organization')
  }
  const workspaces = added('allowed_workspace_ids')
  const scope = project_id === null ? { organization_id } : { project_id }
  if (workspaces.length > 0 && (await unknownWorkspaces(reads, scope, workspaces)).length > 0) {
    throw invalid('allowed_workspace_ids', "names what is no workspace of the secret's")
  }
}
