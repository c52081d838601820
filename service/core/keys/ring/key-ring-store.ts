import { sql } from 'kysely'
import type { Db } from '../../../db/database.ts'
import type { ChangeTx } from '../../changes/mutate.ts'
import { FIRST_KEY_ID, type Purpose } from './purposes.ts'

export interface KeyRow {
  purpose: Purpose
  key_id: string
  created_at: Date
  check_sha256: Buffer | null
  retired_at: Date | null
}

export function listKeys(db: Db, purpose?: Purpose): Promise<KeyRow[]> {
  const rows = db.selectFrom('service_keys').select(['purpose', 'key_id', 'created_at', 'check_sha256', 'retired_at'])
  return (purpose === undefined ? rows : rows.where('purpose', '=', purpose)).orderBy('purpose').orderBy('created_at').execute()
}

export async function announceKey(db: Db, key: { purpose: Purpose; key_id: string; created_at: Date }): Promise<void> {
  const row = { ...key, check_sha256: null, retired_at: null }
  await db
    .insertInto('service_keys')
    .values(row)
    .onConflict((conflict) => conflict.columns(['purpose', 'key_id']).doNothing())
    .execute()
}

/** Only the first write has an effect. */
export async function writeCheck(db: Db, purpose: Purpose, key_id: string, check_sha256: Buffer): Promise<void> {
  await db
    .updateTable('service_keys')
    .set({ check_sha256 })
    .where('purpose', '=', purpose)
    .where('key_id', '=', key_id)
    .where('check_sha256', 'is', null)
    .execute()
}

export async function retireKey(tx: ChangeTx, purpose: Purpose, key_id: string, now: Date): Promise<void> {
  await tx
    .updateTable('service_keys')
    .set({ retired_at: now })
    .where('purpose', '=', purpose)
    .where('key_id', '=', key_id)
    .where('retired_at', 'is', null)
    .execute()
}

export async function entriesOfKey(db: Db, key_id: string, since: Date): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::integer as count from idempotency_entries where created_at > ${since}
      and (substring(fingerprint for 4) = decode(${key_id}, 'hex') and octet_length(fingerprint) = 36
        or ${key_id} = ${FIRST_KEY_ID} and octet_length(fingerprint) = 32)`.execute(db)
  return rows[0]?.count ?? 0
}

export interface SigningKeyRow {
  kid: string
  created_at: Date
  retired_at: Date | null
}

export function listSigningKeys(db: Db): Promise<SigningKeyRow[]> {
  return db.selectFrom('signing_keys').select(['kid', 'created_at', 'retired_at']).orderBy('created_at').execute()
}

export async function deleteSigningKey(tx: ChangeTx, kid: string): Promise<void> {
  await tx.deleteFrom('signing_keys').where('kid', '=', kid).execute()
}
