import { sql } from 'kysely'
import type { Db } from '../../../db/database.ts'
import type { MadeBy, TreeCounts } from '../../../db/column-types.ts'

export interface KeptRevision {
  revision: number
  created_at: Date | null
  entries: number | null
  bytes: number | null
  changes: TreeCounts | null
  made_by: MadeBy | null
}

/** Newest first; the first is the current revision. */
export async function readRevisions(db: Db, workspace_id: string, before: number | null, limit: number): Promise<KeptRevision[]> {
  const below = before === null ? sql`true` : sql`revision < ${before}`
  const { rows } = await sql<KeptRevision>`
    select revision, created_at, entries, bytes, changes, made_by from (
      select revision, updated_at as created_at, entries, bytes, changes, made_by from trees where workspace_id = ${workspace_id}
      union all
      select revision, created_at, entries, bytes, changes, made_by from tree_revisions where workspace_id = ${workspace_id}
    ) all_of_them
    where ${below} order by revision desc limit ${limit}`.execute(db)
  return rows
}
