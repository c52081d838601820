import type { Reader } from '../../db/reader.ts'
import type { Page } from '../pages.ts'

export interface ProjectRow {
  id: string
  organization_id: string
  name: string
  slug: string
  created_at: Date
}

const COLUMNS = 'id, organization_id, name, slug, created_at'

export async function readProject(reads: Reader, id: string): Promise<ProjectRow | null> {
  const [row] = await reads.rows<ProjectRow>('projects.by_id', `select ${COLUMNS} from projects where id = $1`, [id])
  return row ?? null
}

/** Projects of an organization; only the one when `only` names it. One row more than the page holds, newest first. */
export function listProjects(reads: Reader, organization_id: string, only: string | null, page: Page): Promise<ProjectRow[]> {
  return reads.rows(
    'projects.of_organization',
    `select ${COLUMNS} from projects where organization_id = $1 and ($2::uuid is null or id = $2) and ($3::uuid is null or id < $3)
     order by id desc limit $4`,
    [organization_id, only, page.below, page.limit + 1],
  )
}
