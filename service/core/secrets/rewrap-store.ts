import { sql } from 'kysely'
import type { ChangeTx } from '../changes/mutate.ts'
import type { Db } from '../../db/database.ts'
import { SEALING, type SealingKeyRow } from './store.ts'

export async function insertSealingKey(tx: ChangeTx, { key_id, public_jwk, created_at }: SealingKeyRow): Promise<void> {
  await tx
    .insertInto('sealing_keys')
    .values({ key_id, public_jwk: JSON.stringify(public_jwk), created_at })
    .execute()
}

/** Waits for transactions under way, which may still seal for an older key. */
export async function awaitSealers(db: Db): Promise<void> {
  await sql`select pg_advisory_lock(hashtextextended(${SEALING}, 0)), pg_advisory_unlock(hashtextextended(${SEALING}, 0))`.execute(db)
}

/** PostgreSQL refuses this while a value is sealed for the key. */
export async function deleteSealingKey(tx: ChangeTx, key_id: string): Promise<void> {
  await tx.deleteFrom('sealing_keys').where('key_id', '=', key_id).execute()
}

export interface KeyUse {
  key_id: string
  created_at: Date
  values: number
}

/** Lists the keys, newest first. */
export async function keyUses(db: Db): Promise<KeyUse[]> {
  const { rows } =
    await sql<KeyUse>`select k.key_id, k.created_at, (select count(*) from secret_versions v where v.key_id = k.key_id)::integer
      + (select count(*) from authorities a where a.key_id = k.key_id)::integer as values
    from sealing_keys k order by k.created_at desc, k.key_id`.execute(db)
  return rows
}

export interface WrappedRow {
  id: string
  organization_id: string
  secret_id: string
  version: number
  key_id: string
  wrapped_key: string
}

export async function listWrapped(db: Db, newest: string, limit: number): Promise<WrappedRow[]> {
  const { rows } = await sql<WrappedRow>`select v.id, s.organization_id, v.secret_id, v.version, v.key_id, v.wrapped_key
    from secret_versions v join secrets s on s.id = v.secret_id where v.key_id <> ${newest} limit ${limit}`.execute(db)
  return rows
}

/** Writes only over the row that was read, because the value may have been erased since. */
export async function writeWrapped(db: Db, before: WrappedRow, after: Pick<WrappedRow, 'key_id' | 'wrapped_key'>): Promise<void> {
  await db
    .updateTable('secret_versions')
    .set(after)
    .where('id', '=', before.id)
    .where('key_id', '=', before.key_id)
    .where('wrapped_key', '=', before.wrapped_key)
    .execute()
}

export interface SealedAuthorityRow {
  id: string
  key_id: string
  sealed_key: string
}

export async function listSealedAuthorities(db: Db, newest: string, limit: number): Promise<SealedAuthorityRow[]> {
  return db.selectFrom('authorities').select(['id', 'key_id', 'sealed_key']).where('key_id', '<>', newest).limit(limit).execute()
}

export async function writeSealedAuthority(db: Db, { id, key_id, sealed_key }: SealedAuthorityRow): Promise<void> {
  await db.updateTable('authorities').set({ key_id, sealed_key }).where('id', '=', id).execute()
}

export async function countCells(db: Db): Promise<number> {
  const { count } = await db
    .selectFrom('cells')
    .select((e) => e.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return count
}
