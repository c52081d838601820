import { sql, type Selectable } from 'kysely'
import type { Database } from '../../db/schema.ts'
import type { ChangeTx } from '../changes/mutate.ts'

export type Credentials = Selectable<Database['person_credentials']>
export type CredentialsChange = Partial<Omit<Credentials, 'person_id'>>

/** Every other change of the person's credentials waits for this lock. */
export async function lockCredentials(tx: ChangeTx, person_id: string): Promise<Credentials> {
  await tx
    .insertInto('person_credentials')
    .values({ person_id, password_hash: null, password_changed_at: null })
    .onConflict((conflict) => conflict.column('person_id').doNothing())
    .execute()
  return tx.selectFrom('person_credentials').selectAll().where('person_id', '=', person_id).forUpdate().executeTakeFirstOrThrow()
}

export async function writeCredentials(tx: ChangeTx, person_id: string, change: CredentialsChange): Promise<void> {
  await tx.updateTable('person_credentials').set(change).where('person_id', '=', person_id).execute()
}

/** Locks the credentials. @returns false if the password has been replaced since it was checked. */
export async function lockPasswordIfCurrent(tx: ChangeTx, person_id: string, password_hash: string): Promise<boolean> {
  const row = await tx
    .selectFrom('person_credentials')
    .select('person_id')
    .where('person_id', '=', person_id)
    .where('password_hash', '=', password_hash)
    .forShare()
    .executeTakeFirst()
  return row !== undefined
}

export async function replaceRecoveryCodes(tx: ChangeTx, person_id: string, digests: Buffer[], now: Date): Promise<void> {
  await tx.deleteFrom('recovery_codes').where('person_id', '=', person_id).execute()
  const rows = digests.map((code_sha256) => ({ person_id, code_sha256, created_at: now, used_at: null }))
  if (rows.length > 0) await tx.insertInto('recovery_codes').values(rows).execute()
}

export async function useRecoveryCode(tx: ChangeTx, person_id: string, code_sha256: Buffer, now: Date): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('recovery_codes')
    .set({ used_at: now })
    .where('person_id', '=', person_id)
    .where('code_sha256', '=', code_sha256)
    .where('used_at', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** @returns false if the address already belongs to a person. */
export async function insertPerson(
  tx: ChangeTx,
  person: { id: string; email: string; email_verified: boolean; display_name: string | null; created_at: Date },
): Promise<boolean> {
  const { numInsertedOrUpdatedRows = 0n } = await tx
    .insertInto('people')
    .values(person)
    .onConflict((conflict) => conflict.expression(sql`lower(email)`).doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows > 0n
}

export async function updatePerson(
  tx: ChangeTx,
  id: string,
  change: Partial<Pick<Selectable<Database['people']>, 'email' | 'email_verified' | 'display_name' | 'mfa_enabled'>>,
): Promise<void> {
  await tx.updateTable('people').set(change).where('id', '=', id).execute()
}

export function lockPersonByEmail(tx: ChangeTx, email: string): Promise<Selectable<Database['people']> | undefined> {
  return tx
    .selectFrom('people')
    .selectAll()
    .where(sql<string>`lower(email)`, '=', email)
    .forUpdate()
    .executeTakeFirst()
}
