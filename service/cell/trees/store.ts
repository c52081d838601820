import { sql } from 'kysely'
import { LIMITS } from '../../../contract/limits.ts'
import type { Db } from '../../db/database.ts'
import type { Digest } from './blobs.ts'

/** Where a workspace's tree is. */
export interface TreeRow {
  revision: number
  /** null: nothing was ever put into it. */
  root: Digest | null
  created_at: Date
  /** What all its files may have. */
  bytes_max: number
}

/** null: no file-first workspace of this id is left. */
export async function readTree(db: Db, workspace_id: string): Promise<TreeRow | null> {
  const row = await db
    .selectFrom('trees as t')
    .innerJoin('workspaces as w', 'w.id', 't.workspace_id')
    .select(['t.revision', 't.root', 't.created_at', 'w.ceiling_disk_gib'])
    .where('t.workspace_id', '=', workspace_id)
    .where('w.deleted_at', 'is', null)
    .executeTakeFirst()
  if (row === undefined) return null
  const { ceiling_disk_gib, ...tree } = row
  return { ...tree, bytes_max: ceiling_disk_gib * 2 ** 30 }
}

/** The root of an earlier revision that is still kept; undefined where it is not. */
export async function readEarlierRoot(db: Db, workspace_id: string, revision: number): Promise<Digest | null | undefined> {
  const row = await db
    .selectFrom('tree_revisions')
    .select('root')
    .where('workspace_id', '=', workspace_id)
    .where('revision', '=', revision)
    .executeTakeFirst()
  return row?.root
}

/** What a change with an Idempotency-Key was answered. */
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
  now: Date
  kept: KeptAnswer | null
}

/** The next revision, where the tree is still at the one that it was made of. @returns whether it was. */
export async function moveTree(db: Db, move: TreeMove): Promise<boolean> {
  const { workspace_id, base_revision, root, entries, bytes, now, kept } = move
  const { rows } = await sql`
    with before as (
      select workspace_id, root from trees where workspace_id = ${workspace_id} and revision = ${base_revision} for update
    ), moved as (
      update trees t set revision = t.revision + 1, root = ${root}, entries = ${entries}, bytes = ${bytes}, updated_at = ${now}
      from before b join workspaces w on w.id = b.workspace_id and w.deleted_at is null
      where t.workspace_id = b.workspace_id
      returning t.workspace_id, t.revision, b.root as root_before
    ), shown as (
      update workspaces w set tree_revision = m.revision from moved m where w.id = m.workspace_id
    ), superseded as (
      insert into tree_revisions (workspace_id, revision, root, superseded_at)
      select workspace_id, revision - 1, root_before, ${now} from moved
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

/** Trees of this cell in which something may be left that nothing names. */
export async function readCollectable(db: Db, cell_id: string, now: Date, limit: number): Promise<string[]> {
  const settled_seconds = LIMITS.tree.revision_kept_seconds + LIMITS.tree.blob_grace_seconds
  const { rows } = await sql<{ workspace_id: string }>`
    select t.workspace_id from trees t join workspaces w on w.id = t.workspace_id
    where w.cell_id = ${cell_id} and w.deleted_at is null and (
      t.collected_at is null or t.collected_at < ${now}::timestamptz - interval '1 day'
      -- what was named when it was last looked at may have been given up since
      or (t.collected_at < t.updated_at + ${settled_seconds} * interval '1 second'
        and t.collected_at < ${now}::timestamptz - interval '10 minutes')
    )
    order by t.collected_at nulls first limit ${limit}`.execute(db)
  return rows.map(({ workspace_id }) => workspace_id)
}

/** Forgets revisions and keys whose time is over. */
export async function forgetEarlier(db: Db, workspace_id: string, now: Date): Promise<void> {
  const before = new Date(now.getTime() - LIMITS.tree.revision_kept_seconds * 1000)
  await sql`
    delete from tree_revisions where workspace_id = ${workspace_id} and (superseded_at < ${before} or revision <
      (select revision - ${LIMITS.tree.revisions_kept_max} from trees where workspace_id = ${workspace_id}))`.execute(db)
  await sql`
    delete from tree_keys where workspace_id = ${workspace_id} and revision <= (
      select revision from tree_keys where workspace_id = ${workspace_id}
      order by revision desc offset ${LIMITS.file.idempotency_keys_max} limit 1)`.execute(db)
}

/** The roots that are read: of the tree and of its earlier revisions. */
export async function readRoots(db: Db, workspace_id: string): Promise<Digest[]> {
  const { rows } = await sql<{ root: Digest }>`
    select root from trees where workspace_id = ${workspace_id} and root is not null
    union select root from tree_revisions where workspace_id = ${workspace_id} and root is not null`.execute(db)
  return rows.map(({ root }) => root)
}

export async function noteCollected(db: Db, workspace_id: string, now: Date): Promise<void> {
  await db.updateTable('trees').set({ collected_at: now }).where('workspace_id', '=', workspace_id).execute()
}

/** With its revisions and keys. */
export async function dropTree(db: Db, workspace_id: string): Promise<void> {
  await db.deleteFrom('trees').where('workspace_id', '=', workspace_id).execute()
}

/** What became of these workspaces, wherever they are; one that no row names is not among them. */
export async function readFates(db: Db, ids: readonly string[]): Promise<Map<string, 'kept' | 'deleted'>> {
  const { rows } = await sql<{ id: string; deleted: boolean }>`
    select id, deleted_at is not null as deleted from workspaces where id = any(${ids}::uuid[])`.execute(db)
  return new Map(rows.map(({ id, deleted }) => [id, deleted ? 'deleted' : 'kept']))
}

/** Bytes of the current revision of each tree of this cell. */
export async function readTreeBytes(db: Db, cell_id: string): Promise<Map<string, number>> {
  const rows = await db
    .selectFrom('trees as t')
    .innerJoin('workspaces as w', 'w.id', 't.workspace_id')
    .select(['t.workspace_id', 't.bytes'])
    .where('w.cell_id', '=', cell_id)
    .where('w.deleted_at', 'is', null)
    .execute()
  return new Map(rows.map(({ workspace_id, bytes }) => [workspace_id, bytes]))
}
