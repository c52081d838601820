import type { Reader } from '../../../db/reader.ts'
import type { Page } from '../../calls/pages.ts'

export interface OrganizationRow {
  id: string
  name: string
  slug: string
  created_at: Date
}

export function listOrganizations(reads: Reader, ids: string[], page: Page): Promise<OrganizationRow[]> {
  return reads.rows(
    'organizations.by_ids',
    `select id, name, slug, created_at from organizations where id = any($1) and deleted_at is null and ($2::uuid is null or id < $2) order by id desc limit $3`,
    [ids, page.below, page.limit + 1],
  )
}
