import { sql, type Insertable, type Selectable } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { Database } from '../../db/schema.ts'
import type { ChangeTx } from '../changes/mutate.ts'

export function findPerson(db: Db, email: string): Promise<Selectable<Database['people']> | undefined> {
  return db
    .selectFrom('people')
    .selectAll()
    .where(sql<string>`lower(email)`, '=', email.toLowerCase())
    .executeTakeFirst()
}

/** A person has one row for all organizations. */
export async function insertPersonWithRole(
  tx: ChangeTx,
  person: Insertable<Database['people']>,
  membership: Omit<Insertable<Database['memberships']>, 'person_id'>,
): Promise<string> {
  await tx
    .insertInto('people')
    .values(person)
    .onConflict((conflict) => conflict.expression(sql`lower(email)`).doNothing())
    .execute()
  const { id } = await tx
    .selectFrom('people')
    .select('id')
    .where(sql<string>`lower(email)`, '=', person.email.toLowerCase())
    .executeTakeFirstOrThrow()
  await tx
    .insertInto('memberships')
    .values({ ...membership, person_id: id })
    .onConflict((conflict) => conflict.columns(['organization_id', 'person_id']).doUpdateSet({ role: membership.role }))
    .execute()
  return id
}

export async function insertPersonSession(tx: ChangeTx, session: Insertable<Database['person_sessions']>): Promise<void> {
  await tx.insertInto('person_sessions').values(session).execute()
}

export function listPersonSessions(db: Db, person_id: string) {
  return db
    .selectFrom('person_sessions')
    .select(['id', 'created_at', 'last_used_at', 'expires_at', 'revoked_at'])
    .where('person_id', '=', person_id)
    .orderBy('id', 'desc')
    .execute()
}

export async function revokePersonSessions(tx: ChangeTx, person_id: string, only: string | undefined, now: Date): Promise<number> {
  const { numUpdatedRows } = await tx
    .updateTable('person_sessions')
    .set({ revoked_at: now })
    .where('person_id', '=', person_id)
    .where('revoked_at', 'is', null)
    .$if(only !== undefined, (query) => query.where('id', '=', only ?? ''))
    .executeTakeFirst()
  return Number(numUpdatedRows)
}
