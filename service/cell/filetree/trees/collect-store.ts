import { sql, type Transaction } from 'kysely'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Db } from '../../../db/database.ts'
import type { Database } from '../../../db/schema.ts'
import type { Digest } from './blobs.ts'

export interface KeptRevisions {
  seconds: number
  count: number
}

/** The collector waits for this lock, so it reads the tree that `work` makes or advances. */
export async function withRevisionsLocked<T>(db: Db, store_id: string, work: (tx: Transaction<Database>) => Promise<T>): Promise<T> {
  return db.transaction().execute(async (tx) => {
    await sql`select pg_advisory_xact_lock_shared(hashtextextended(${`tree store ${store_id}`}, 0))`.execute(tx)
    return work(tx)
  })
}

export async function readCollectable(db: Db, cell_id: string, now: Date, limit: number, kept: KeptRevisions): Promise<string[]> {
  const grace = sql`${LIMITS.tree.blob_grace_seconds} * interval '1 second'`
  const { rows } = await sql<{ store_id: string }>`
    select coalesce(t.store_id, t.workspace_id) as store_id from trees t join workspaces w on w.id = t.workspace_id
    where w.cell_id = ${cell_id} and w.deleted_at is null and (
      t.collected_at is null or t.collected_at < ${now}::timestamptz - interval '1 day'
      or (t.collected_at < ${now}::timestamptz - interval '10 minutes' and (
        -- what was in use when it was last looked at may go since
        (t.collected_at < t.updated_at + ${grace} and t.updated_at + ${grace} < ${now})
        or exists (select from tree_revisions r where r.workspace_id = t.workspace_id and (
          r.superseded_at < ${now}::timestamptz - ${kept.seconds} * interval '1 second' or r.revision < t.revision - ${kept.count}))
      ))
    )
    group by 1 order by min(coalesce(t.collected_at, '-infinity')) limit ${limit}`.execute(db)
  return rows.map(({ store_id }) => store_id)
}

export async function forgetEarlier(db: Db, store_id: string, now: Date, kept: KeptRevisions): Promise<void> {
  const before = new Date(now.getTime() - kept.seconds * 1000)
  await db.transaction().execute(async (tx) => {
    await sql`select pg_advisory_xact_lock(hashtextextended(${`tree store ${store_id}`}, 0))`.execute(tx)
    await sql`
      delete from tree_revisions r using trees t
      where t.workspace_id = r.workspace_id and (t.workspace_id = ${store_id} or t.store_id = ${store_id})
        and (r.superseded_at < ${before} or r.revision < t.revision - ${kept.count})`.execute(tx)
  })
  await sql`
    delete from tree_keys k using (
      select k.workspace_id, k.revision, row_number() over (partition by k.workspace_id order by k.revision desc) as place
      from tree_keys k join trees t using (workspace_id) where t.workspace_id = ${store_id} or t.store_id = ${store_id}
    ) old
    where old.place > ${LIMITS.file.idempotency_keys_max} and k.workspace_id = old.workspace_id and k.revision = old.revision`.execute(db)
}

export async function readWorkspacesOfStore(db: Db, store_id: string): Promise<string[]> {
  const { rows } = await sql<{ workspace_id: string }>`
    select workspace_id from trees where workspace_id = ${store_id} or store_id = ${store_id}`.execute(db)
  return rows.map(({ workspace_id }) => workspace_id)
}

export async function readRoots(db: Db, store_id: string): Promise<Digest[]> {
  const { rows } = await sql<{ root: Digest }>`
    with sharing as (select workspace_id, root from trees where workspace_id = ${store_id} or store_id = ${store_id})
    select root from sharing where root is not null
    union select r.root from tree_revisions r join sharing using (workspace_id) where r.root is not null`.execute(db)
  return rows.map(({ root }) => root)
}

export async function readLast(db: Db, store_id: string): Promise<{ workspace_id: string; revision: number; root: Digest | null }[]> {
  const { rows } = await sql<{ workspace_id: string; revision: number; root: Digest | null }>`
    select workspace_id, revision, root from trees where workspace_id = ${store_id} or store_id = ${store_id}`.execute(db)
  return rows
}

export async function noteCollected(db: Db, store_id: string, now: Date): Promise<void> {
  await sql`update trees set collected_at = ${now} where workspace_id = ${store_id} or store_id = ${store_id}`.execute(db)
}

/** A deleted workspace is reported as 'kept' while other trees share its store. */
export async function readStoreOwnerStates(db: Db, ids: readonly string[]): Promise<Map<string, 'kept' | 'deleted'>> {
  const { rows } = await sql<{ id: string; deleted: boolean }>`
    select id, deleted_at is not null and not exists (select from trees t where t.store_id = w.id) as deleted
    from workspaces w where id = any(${ids}::uuid[])
    union select store_id, false from trees where store_id = any(${ids}::uuid[])`.execute(db)
  const fates = new Map<string, 'kept' | 'deleted'>()
  for (const { id, deleted } of rows) if (fates.get(id) !== 'kept') fates.set(id, deleted ? 'deleted' : 'kept')
  return fates
}
