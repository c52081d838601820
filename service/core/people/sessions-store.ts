import { sql, type Insertable, type Selectable } from 'kysely'
import { LIMITS } from '../../../contract/limits.ts'
import type { Db } from '../../db/database.ts'
import { deleteOld } from '../../db/delete-old.ts'
import type { Database } from '../../db/schema.ts'
import type { ChangeTx } from '../changes/mutate.ts'

export async function insertSession(tx: ChangeTx, session: Insertable<Database['person_sessions']>): Promise<void> {
  await tx.insertInto('person_sessions').values(session).execute()
  const kept = tx
    .selectFrom('person_sessions')
    .select('id')
    .where('person_id', '=', session.person_id)
    .where('revoked_at', 'is', null)
    .orderBy('last_used_at', 'desc')
    .orderBy(sql`uuid_send(id)`, 'desc')
    .limit(LIMITS.sign_in.sessions_per_person_max)
  await tx
    .updateTable('person_sessions')
    .set({ revoked_at: session.created_at })
    .where('person_id', '=', session.person_id)
    .where('revoked_at', 'is', null)
    .where('id', 'not in', kept)
    .execute()
}

export type SessionChange = Partial<Pick<Selectable<Database['person_sessions']>, 'mfa_pending' | 'stepped_up_at'>>

/** Of two concurrent calls with the same token, only one replaces it. */
export function rotateSession(
  tx: ChangeTx,
  { id, from, to, now, change }: { id: string; from: Buffer; to: Buffer; now: Date; change: SessionChange },
): Promise<Selectable<Database['person_sessions']> | undefined> {
  return tx
    .updateTable('person_sessions')
    .set({ token_sha256: to, last_used_at: now, ...change })
    .where('id', '=', id)
    .where('token_sha256', '=', from)
    .where('revoked_at', 'is', null)
    .returningAll()
    .executeTakeFirst()
}

export async function revokeSessions(tx: ChangeTx, person_id: string, now: Date, except: string | null = null): Promise<number> {
  const { numUpdatedRows } = await tx
    .updateTable('person_sessions')
    .set({ revoked_at: now })
    .where('person_id', '=', person_id)
    .where('revoked_at', 'is', null)
    .$if(except !== null, (query) => query.where('id', '!=', except ?? ''))
    .executeTakeFirst()
  return Number(numUpdatedRows)
}

/** @returns whether the session was in force before; null: the person has no such session. */
export async function revokeSession(tx: ChangeTx, person_id: string, id: string, now: Date): Promise<boolean | null> {
  const row = await tx
    .selectFrom('person_sessions')
    .select('revoked_at')
    .where('id', '=', id)
    .where('person_id', '=', person_id)
    .forUpdate()
    .executeTakeFirst()
  if (row === undefined) return null
  if (row.revoked_at !== null) return false
  await tx.updateTable('person_sessions').set({ revoked_at: now }).where('id', '=', id).execute()
  return true
}

export async function forgetSessions(db: Db, expired_before: Date): Promise<number> {
  return deleteOld(db, 'person_sessions', sql`expires_at < ${expired_before}`)
}
