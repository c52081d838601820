import { toolsOf } from '../../../contract/access.ts'
import type { Tool } from '../../../contract/route.ts'
import type { Principal } from '../../http/call.ts'
import { fail, type Failure } from '../../lib/fail.ts'

export interface Owned {
  organization_id: string
  project_id: string
}

/** Whether the principal may learn that the object exists. */
export function maySee(who: Principal, owned: Owned): boolean {
  return who.type === 'api_key' ? who.project_id === owned.project_id : isMember(who, owned.organization_id)
}

/** Null project: an object of the whole organization. */
export function maySeeScope(
  who: Principal,
  { organization_id, project_id }: { organization_id: string; project_id: string | null },
): boolean {
  return project_id === null ? maySeeOrganization(who, organization_id) : maySee(who, { organization_id, project_id })
}

export function maySeeOrganization(who: Principal, organization_id: string): boolean {
  return who.type === 'api_key' ? who.organization_id === organization_id : isMember(who, organization_id)
}

/** A person who deleted an organization is no longer a member, but may still read the progress of the deletion. */
export function watchesEnd(
  who: Principal,
  { project_id, kind, input }: { project_id: string | null; kind: string; input: Record<string, unknown> },
): boolean {
  return who.type === 'user' && project_id === null && kind === 'delete' && input['requested_by'] === who.id
}

function isMember(who: Extract<Principal, { type: 'user' }>, organization_id: string): boolean {
  return who.memberships.some((membership) => membership.organization_id === organization_id)
}

type Personal = 'export' | 'session' | 'member' | 'invitation' | 'API key'
type Paid = 'invoice' | 'billing account'

/** Missing objects and those of other tenants get the same answer, so callers cannot distinguish them. */
export function notFound(
  what:
    | 'organization'
    | 'project'
    | 'workspace'
    | 'operation'
    | 'template'
    | 'secret'
    | 'volume'
    | 'port'
    | 'build'
    | 'upload'
    | Personal
    | Paid,
): Failure {
  return fail('not_found', null, `There is no such ${what}`)
}

export function permittedTools(who: Principal, organization_id: string): readonly Tool[] {
  if (who.type === 'api_key') return who.tool_permissions
  const role = who.memberships.find((membership) => membership.organization_id === organization_id)?.role
  return role === undefined ? [] : toolsOf(role)
}

export function requestedTools(who: Principal, organization_id: string, asked: readonly Tool[] | undefined): readonly Tool[] {
  const permitted = permittedTools(who, organization_id)
  const denied = (asked ?? []).filter((tool) => !permitted.includes(tool))
  if (denied.length > 0) {
    throw fail('forbidden', null, 'These tools are not permitted to you', {
      details: { denied_tools: denied, permitted_tools: [...permitted] },
    })
  }
  return asked ?? permitted
}
