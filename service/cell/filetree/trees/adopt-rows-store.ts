import { sql } from 'kysely'
import type { Db } from '../../../db/database.ts'
import type { Digest } from './blobs.ts'

export async function readKnown(db: Db, workspace_ids: readonly string[]): Promise<Map<string, number | 'deleted'>> {
  const { rows } = await sql<{ id: string; revision: number | null }>`
    select w.id, case when w.deleted_at is null then t.revision end as revision
    from workspaces w left join trees t on t.workspace_id = w.id where w.id = any(${workspace_ids}::uuid[])`.execute(db)
  return new Map(rows.map(({ id, revision }) => [id, revision ?? 'deleted']))
}

export interface Forward {
  workspace_id: string
  revision: number
  root: Digest
  entries: number
  bytes: number
  now: Date
  /** True if the row's present revision becomes an earlier revision; false if its blobs are incomplete. */
  keeps_earlier: boolean
}

export async function forwardTree(db: Db, { workspace_id, revision, root, entries, bytes, now, keeps_earlier }: Forward): Promise<boolean> {
  const { rows } = await sql`
    with before as (
      select * from trees where workspace_id = ${workspace_id} and revision < ${revision} for update
    ), moved as (
      update trees t set revision = ${revision}, root = ${root}, entries = ${entries}, bytes = ${bytes}, updated_at = ${now},
        changes = null, made_by = null
      from before b join workspaces w on w.id = b.workspace_id and w.deleted_at is null
      where t.workspace_id = b.workspace_id
      returning t.workspace_id
    ), shown as (
      update workspaces w set tree_revision = ${revision} from moved m where w.id = m.workspace_id
    ), superseded as (
      insert into tree_revisions (workspace_id, revision, root, superseded_at, entries, bytes, created_at, changes, made_by)
      select workspace_id, b.revision, b.root, ${now}, b.entries, b.bytes, b.updated_at, b.changes, b.made_by
      from moved join before b using (workspace_id) where ${keeps_earlier}
    )
    select workspace_id from moved`.execute(db)
  return rows.length === 1
}
