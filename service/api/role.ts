import type { Role, Within } from '../../contract/access.ts'
import type { Call, PersonPrincipal } from '../http/call.ts'
import { notFound, watchesEnd } from './calls/scope.ts'
import { readOperation } from './workspaces/operations/store.ts'
import { projectOf } from './access/projects/project-of.ts'
import { readSecret } from './workspaces/secrets/store.ts'
import { readBuild } from './templates/builds/store.ts'
import { readUpload } from './templates/uploads/store.ts'
import { findTemplate } from './templates/find.ts'
import { readWorkspace } from './workspaces/store.ts'
import type { ReadDeps } from './calls/deps.ts'

/** A target that the person may not see is answered as missing. null: the call has no target. */
export async function roleOf({ reads }: ReadDeps, who: PersonPrincipal, call: Call): Promise<Role | null> {
  const { access } = call.route
  if (access.kind !== 'principal' || access.within === 'self') return null
  const { organization_id, what, watches } = await ownerOf(access.within)
  const role = who.memberships.find((membership) => membership.organization_id === organization_id)?.role
  if (role !== undefined) return role
  if (watches === true) return 'billing' // `billing` has only read access
  throw notFound(what)

  async function ownerOf(
    within: Exclude<Within, 'self'>,
  ): Promise<{ what: Parameters<typeof notFound>[0]; organization_id?: string | undefined; watches?: boolean }> {
    const named = call.params as Partial<Record<string, string>>
    switch (within) {
      case 'organization':
        return { what: within, organization_id: named['organization_id'] }
      case 'project': {
        const body = call.body as { project_id?: string } | undefined
        return { what: within, organization_id: (await projectOf(reads, who, named['project_id'] ?? body?.project_id)).organization_id }
      }
      case 'workspace':
        return { what: within, organization_id: (await readWorkspace(reads, named['workspace_id'] ?? ''))?.organization_id }
      case 'secret':
        return { what: within, organization_id: (await readSecret(reads, named['secret_id'] ?? ''))?.organization_id }
      case 'template': {
        // Every person may see a platform template. Handlers refuse changes of it (refusePlatform).
        const { organization_id } = await findTemplate(reads, who, { slug: named['slug'] ?? '' })
        return { what: within, organization_id: organization_id ?? who.memberships[0]?.organization_id }
      }
      case 'template_build':
        return { what: 'build', organization_id: (await readBuild(reads, named['build_id'] ?? ''))?.organization_id }
      case 'upload':
        return { what: within, organization_id: (await readUpload(reads, named['upload_id'] ?? ''))?.organization_id }
      case 'operation': {
        const row = await readOperation(reads, named['operation_id'] ?? '')
        return { what: within, organization_id: row?.organization_id, watches: row !== null && watchesEnd(who, row) }
      }
    }
  }
}
