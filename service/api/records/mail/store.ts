import { sql } from 'kysely'
import type { Role } from '../../../../contract/access.ts'
import type { AlertSubject } from '../../../../contract/schemas/spend.ts'
import type { Db } from '../../../db/database.ts'
import { deleteOld } from '../../../db/delete-old.ts'
import { insertEmailToken } from '../../../core/people/email-tokens-store.ts'
import type { Mail } from '../../../core/people/mail/store.ts'

/** Mail for which a person waits is sent before invitations and alerts, which may be many. */
export function claimMail(db: Db, now: Date, until: Date): Promise<Mail | undefined> {
  return db
    .updateTable('mails')
    .set((e) => ({ next_try_at: until, tries: e('tries', '+', 1) }))
    .where('id', '=', (e) =>
      e
        .selectFrom('mails')
        .select('id')
        .where('sent_at', 'is', null)
        .where('given_up_at', 'is', null)
        .where('next_try_at', '<=', now)
        .orderBy(sql`kind in ('invitation', 'spend_alert')`)
        .orderBy('next_try_at')
        .orderBy('id')
        .limit(1)
        .forUpdate()
        .skipLocked(),
    )
    .returningAll()
    .executeTakeFirst()
}

/** `tries` identifies the claim: an expired claim changes nothing. */
export async function endMail(
  db: Db,
  { id, tries }: Mail,
  change: { sent_at?: Date; given_up_at?: Date; next_try_at?: Date; last_error?: string | null },
): Promise<void> {
  await db.updateTable('mails').set(change).where('id', '=', id).where('tries', '=', tries).execute()
}

/** undefined: nothing to send. */
export function giveInvitationToken(
  db: Db,
  id: string,
  token_sha256: Buffer,
  now: Date,
): Promise<{ role: Role; organization: string } | undefined> {
  return db
    .updateTable('invitations as i')
    .from('organizations as g')
    .set({ token_sha256 })
    .where('i.id', '=', id)
    .whereRef('g.id', '=', 'i.organization_id')
    .where('i.accepted_at', 'is', null)
    .where('i.revoked_at', 'is', null)
    .where('i.expires_at', '>', now)
    .returning(['i.role', 'g.name as organization'])
    .executeTakeFirst()
}

export function findRecipient(db: Db, email: string): Promise<{ id: string; email_verified: boolean } | undefined> {
  return db
    .selectFrom('people')
    .select(['id', 'email_verified'])
    .where(sql<string>`lower(email)`, '=', email)
    .executeTakeFirst()
}

export function findAlert(
  db: Db,
  id: string,
): Promise<{ organization: string; subject: AlertSubject; threshold_percent: number; period_starts_at: Date } | undefined> {
  return db
    .selectFrom('spend_alerts as a')
    .innerJoin('organizations as g', 'g.id', 'a.organization_id')
    .select(['g.name as organization', 'a.subject', 'a.threshold_percent', 'a.period_starts_at'])
    .where('a.id', '=', id)
    .executeTakeFirst()
}

export async function giveEmailToken(db: Db, token: Parameters<typeof insertEmailToken>[1]): Promise<void> {
  await db.transaction().execute((tx) => insertEmailToken(tx, token))
}

export async function forgetMails(db: Db, ended_before: Date): Promise<void> {
  await deleteOld(db, 'mails', sql`created_at < ${ended_before} and (sent_at is not null or given_up_at is not null)`)
  await deleteOld(db, 'email_tokens', sql`expires_at < ${ended_before}`)
}
