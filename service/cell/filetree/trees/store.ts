import { sql } from 'kysely'
import type { Db } from '../../../db/database.ts'
import type { MadeBy, TreeCounts } from '../../../db/column-types.ts'
import type { Digest } from './blobs.ts'

export interface TreeRow {
  revision: number
  /** null: no revision was ever written. */
  root: Digest | null
  created_at: Date
  /** A fork shares the store of its source. */
  store_id: string
  execution_id: string | null
  bytes_max: number
}

/** @returns null: no file-first workspace has this id */
export async function readTree(db: Db, workspace_id: string): Promise<TreeRow | null> {
  const row = await db
    .selectFrom('trees as t')
    .innerJoin('workspaces as w', 'w.id', 't.workspace_id')
    .select(['t.workspace_id', 't.store_id', 't.revision', 't.root', 't.created_at', 't.execution_id', 'w.ceiling_disk_gib'])
    .where('t.workspace_id', '=', workspace_id)
    .where('w.deleted_at', 'is', null)
    .executeTakeFirst()
  if (row === undefined) return null
  const { revision, root, created_at, execution_id } = row
  const bytes_max = row.ceiling_disk_gib * 2 ** 30
  return { revision, root, created_at, execution_id, store_id: row.store_id ?? row.workspace_id, bytes_max }
}

export async function readStore(db: Db, workspace_id: string): Promise<string> {
  const row = await db.selectFrom('trees').select('store_id').where('workspace_id', '=', workspace_id).executeTakeFirst()
  return row?.store_id ?? workspace_id
}

/** @returns null for an empty root; undefined if the revision has been removed */
export async function readEarlierRoot(db: Db, workspace_id: string, revision: number): Promise<Digest | null | undefined> {
  const row = await db
    .selectFrom('tree_revisions')
    .select('root')
    .where('workspace_id', '=', workspace_id)
    .where('revision', '=', revision)
    .executeTakeFirst()
  return row?.root
}

export interface KeptAnswer {
  key: string
  fingerprint: Buffer
  answer: object
}

export interface TreeMove {
  workspace_id: string
  base_revision: number
  root: Digest
  entries: number
  bytes: number
  /** null: there are too many changes to count. */
  changes: TreeCounts | null
  made_by: MadeBy | null
  now: Date
  kept: KeptAnswer | null
}

/** @returns false if the tree is newer than the base revision, or a command runs on the tree */
export async function moveTree(db: Db, move: TreeMove): Promise<boolean> {
  const { workspace_id, base_revision, root, entries, bytes, now, kept } = move
  const [changes, made_by] = [move.changes, move.made_by].map((value) => (value === null ? null : JSON.stringify(value)))
  const { rows } = await sql`
    with before as (
      select * from trees
      where workspace_id = ${workspace_id} and revision = ${base_revision} and execution_id is null for update
    ), moved as (
      update trees t set revision = t.revision + 1, root = ${root}, entries = ${entries}, bytes = ${bytes}, updated_at = ${now},
        changes = ${changes}, made_by = ${made_by}
      from before b join workspaces w on w.id = b.workspace_id and w.deleted_at is null
      where t.workspace_id = b.workspace_id
      returning t.workspace_id, t.revision
    ), shown as (
      update workspaces w set tree_revision = m.revision from moved m where w.id = m.workspace_id
    ), superseded as (
      insert into tree_revisions (workspace_id, revision, root, superseded_at, entries, bytes, created_at, changes, made_by)
      select workspace_id, b.revision, b.root, ${now}, b.entries, b.bytes, b.updated_at, b.changes, b.made_by
      from moved join before b using (workspace_id)
    ), answered as (
      insert into tree_keys (workspace_id, key, fingerprint, revision, answer, created_at)
      select workspace_id, ${kept?.key ?? null}, ${kept?.fingerprint ?? null}, revision, ${kept === null ? null : JSON.stringify(kept.answer)}, ${now}
      from moved where ${kept !== null}
    )
    select revision from moved`.execute(db)
  return rows.length === 1
}

export interface AnsweredKey {
  fingerprint: Buffer
  revision: number
  answer: object
}

export async function readKept(db: Db, workspace_id: string, key: string): Promise<AnsweredKey | null> {
  const row = await db
    .selectFrom('tree_keys')
    .select(['fingerprint', 'revision', 'answer'])
    .where('workspace_id', '=', workspace_id)
    .where('key', '=', key)
    .executeTakeFirst()
  return row ?? null
}

export async function dropTree(db: Db, workspace_id: string): Promise<void> {
  await db.deleteFrom('trees').where('workspace_id', '=', workspace_id).execute()
}
