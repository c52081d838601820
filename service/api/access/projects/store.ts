import type { Reader } from '../../../db/reader.ts'
import type { Page } from '../../calls/pages.ts'

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

/** Reads one row beyond the page, which shows whether another page exists. */
export async function listProjects(reads: Reader, organization_id: string, only: string | null, page: Page): Promise<ProjectRow[]> {
  const { below, limit } = page
  if (only !== null) {
    const project = await readProject(reads, only)
    return project?.organization_id === organization_id && (below === null || only < below) ? [project] : []
  }
  return reads.rows(
    below === null ? 'projects.of_organization' : 'projects.of_organization:b',
    `select ${COLUMNS} from projects where organization_id = $1 ${below === null ? '' : 'and uuid_send(id) < uuid_send($3::uuid)'} order by uuid_send(id) desc limit $2`,
    [organization_id, limit + 1, ...(below === null ? [] : [below])],
  )
}
