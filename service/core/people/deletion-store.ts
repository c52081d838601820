import { sql } from 'kysely'
import type { ChangeTx } from '../changes/mutate.ts'

/** Owners of these organizations cannot change until the transaction ends. */
export async function lockOwned(tx: ChangeTx, person_id: string): Promise<{ id: string; owners: number }[]> {
  const owned = tx.selectFrom('memberships').select('organization_id').where('person_id', '=', person_id).where('role', '=', 'owner')
  const locked = await tx
    .selectFrom('organizations')
    .select('id')
    .where('id', 'in', owned)
    .where('deleting_at', 'is', null)
    .orderBy('id')
    .forUpdate()
    .execute()
  if (locked.length === 0) return []
  // Read again, because memberships may have changed while the transaction waited for the lock.
  return tx
    .selectFrom('memberships as m')
    .select(({ fn }) => ['m.organization_id as id', fn.countAll<number>().as('owners')])
    .where(
      'm.organization_id',
      'in',
      locked.map(({ id }) => id),
    ) // prettier-ignore
    .where('m.role', '=', 'owner')
    .where('m.organization_id', 'in', owned)
    .groupBy('m.organization_id')
    .execute()
}

export async function deleteMemberships(tx: ChangeTx, person_id: string): Promise<string[]> {
  const rows = await tx.deleteFrom('memberships').where('person_id', '=', person_id).returning('organization_id').execute()
  return rows.map(({ organization_id }) => organization_id)
}

/** The row is anonymised, not deleted, because other rows reference it. */
export async function erasePerson(tx: ChangeTx, id: string, email: string, now: Date): Promise<void> {
  await tx.deleteFrom('recovery_codes').where('person_id', '=', id).execute()
  await tx.deleteFrom('email_tokens').where('person_id', '=', id).execute()
  await tx.deleteFrom('person_credentials').where('person_id', '=', id).execute()
  await tx
    .updateTable('person_sessions')
    .set({ revoked_at: sql<Date>`coalesce(revoked_at, ${now})`, device: null, address: null })
    .where('person_id', '=', id)
    .execute()
  await tx.deleteFrom('mails').where((e) => e.or([e('person_id', '=', id), e('email', '=', email)])).execute() // prettier-ignore
  await tx
    .updateTable('people')
    .set({ email: `${id}@deleted.invalid`, email_verified: false, display_name: null, mfa_enabled: false, deleted_at: now })
    .where('id', '=', id)
    .execute()
}
