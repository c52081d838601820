import { parseBase } from '../../../core/templates/recipes/check.ts'
import type { Reader } from '../../../db/reader.ts'
import { fail } from '../../../lib/fail.ts'
import { findTemplates, readVersion, type VersionRow } from '../store.ts'

type BaseReason = 'base_not_found' | 'base_archived' | 'base_not_published' | 'base_not_layered'

export async function findBase(reads: Reader, organization_id: string, name: string): Promise<VersionRow> {
  const { slug, version = null } = parseBase(name) ?? { slug: name }
  const [template] = await findTemplates(reads, [organization_id], slug)
  if (template === undefined) throw refused('base_not_found', `there is no template ${slug}`)
  if (template.archived_at !== null) throw refused('base_archived', `the template ${slug} is archived`)
  const number = version ?? template.latest_version
  if (number === null) throw refused('base_not_published', `${slug} has no published version`)
  const row = await readVersion(reads, template.id, number)
  if (row === null) throw refused('base_not_found', `${slug} has no version ${number}`)
  if (row.archived_at !== null) throw refused('base_archived', `version ${number} of ${slug} is archived`)
  if (row.published_at === null) throw refused('base_not_published', `version ${number} of ${slug} is not published`)
  if (!row.layered) throw refused('base_not_layered', `version ${number} of ${slug} is a full copy: it has no layers`)
  return row
}

function refused(reason: BaseReason, why: string) {
  return fail('validation_failed', reason, `The base cannot be built on: ${why}`, { details: { field: 'base' } })
}
