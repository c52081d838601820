import type { Principal } from '../../http/call.ts'
import { fail } from '../../lib/fail.ts'
import type { Reader } from '../../db/reader.ts'
import { maySeeOrganization, notFound } from '../calls/scope.ts'
import { organizationIds } from '../../core/people/organizations/store.ts'
import { findTemplates, readVersion, type TemplateRow, type VersionRow } from './store.ts'

export interface TemplatePath {
  slug: string
  organization_id?: string
}

/** Finds the organization's own template, else the platform's. Throws if several of a person's organizations have the slug. */
export async function findTemplate(reads: Reader, who: Principal, { slug, organization_id }: TemplatePath): Promise<TemplateRow> {
  if (organization_id !== undefined && !maySeeOrganization(who, organization_id)) throw notFound('organization')
  const organizations = organization_id === undefined ? organizationIds(who) : [organization_id]
  const [found, other] = await findTemplates(reads, organizations, slug)
  if (found === undefined) throw notFound('template')
  if (found.organization_id !== null && other !== undefined && other.organization_id !== null) throw severalHave(slug)
  return found
}

function severalHave(slug: string) {
  const message = `several of your organizations have a template ${slug}: ask /v1/organizations/{organization_id}/templates`
  return fail('validation_failed', null, 'The request is not valid', { details: { issues: [{ path: 'slug', message }] } })
}

export async function findVersion(reads: Reader, template: TemplateRow, version: number): Promise<VersionRow> {
  const row = await readVersion(reads, template.id, version)
  if (row === null) throw fail('not_found', 'version_not_found', `${template.slug} has no version ${version}`)
  return row
}

export function refuseArchived({ archived_at }: TemplateRow): void {
  if (archived_at !== null) throw fail('conflict', 'template_archived', 'The template is archived')
}

/** Only operators change a platform template. */
export function refusePlatform(template: TemplateRow): TemplateRow {
  if (template.organization_id !== null) return template
  throw fail(
    'validation_failed',
    'platform_template_slug',
    'The template is of the platform: its operators publish and archive its versions',
    {
      details: { field: 'slug' },
    },
  )
}
