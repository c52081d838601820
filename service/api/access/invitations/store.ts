import { sql, type Insertable, type Selectable } from 'kysely'
import type { Role } from '../../../../contract/access.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Db } from '../../../db/database.ts'
import { deleteOld } from '../../../db/delete-old.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Database } from '../../../db/schema.ts'
import type { Page } from '../../calls/pages.ts'

export type InvitationRow = Selectable<Database['invitations']>

export function listInvitations(reads: Reader, organization_id: string, now: Date, { below, limit }: Page): Promise<InvitationRow[]> {
  const first = below === null
  return reads.rows(
    first ? 'invitations.list' : 'invitations.list:b',
    `select * from invitations where organization_id = $1 and accepted_at is null and revoked_at is null and expires_at > $2
     ${first ? '' : 'and uuid_send(id) < uuid_send($4::uuid)'} order by uuid_send(id) desc limit $3`,
    [organization_id, now, limit + 1, ...(first ? [] : [below])],
  )
}

/** An expired invitation would block a new one to the address. */
export async function endExpired(tx: ChangeTx, organization_id: string, email: string, now: Date): Promise<void> {
  await tx
    .updateTable('invitations')
    .set({ revoked_at: now })
    .where('organization_id', '=', organization_id)
    .where('email', '=', email)
    .where('accepted_at', 'is', null)
    .where('revoked_at', 'is', null)
    .where('expires_at', '<=', now)
    .execute()
}

export async function countWaiting(tx: ChangeTx, organization_id: string, now: Date): Promise<number> {
  const { count } = await tx
    .selectFrom('invitations')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('organization_id', '=', organization_id)
    .where('accepted_at', 'is', null)
    .where('revoked_at', 'is', null)
    .where('expires_at', '>', now)
    .executeTakeFirstOrThrow()
  return count
}

/** @returns false if the address has an open invitation. */
export async function insertInvitation(tx: ChangeTx, invitation: Insertable<Database['invitations']>): Promise<boolean> {
  const { numInsertedOrUpdatedRows = 0n } = await tx
    .insertInto('invitations')
    .values(invitation)
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows > 0n
}

export async function isMemberByEmail(tx: ChangeTx, organization_id: string, email: string): Promise<boolean> {
  const row = await tx
    .selectFrom('memberships as m')
    .innerJoin('people as p', 'p.id', 'm.person_id')
    .select('p.id')
    .where('m.organization_id', '=', organization_id)
    .where((e) => e(e.fn<string>('lower', ['p.email']), '=', email))
    .executeTakeFirst()
  return row !== undefined
}

export function lockInvitation(tx: ChangeTx, organization_id: string, id: string): Promise<InvitationRow | undefined> {
  return tx
    .selectFrom('invitations')
    .selectAll()
    .where('id', '=', id)
    .where('organization_id', '=', organization_id)
    .forUpdate()
    .executeTakeFirst()
}

export async function lastMailed(tx: ChangeTx, invitation_id: string): Promise<Date | null> {
  const row = await tx
    .selectFrom('mails')
    .select('created_at')
    .where('invitation_id', '=', invitation_id)
    .orderBy('created_at', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row?.created_at ?? null
}

export async function writeInvitation(
  tx: ChangeTx,
  id: string,
  change: Partial<Pick<InvitationRow, 'token_sha256' | 'expires_at' | 'revoked_at'>>,
): Promise<void> {
  await tx.updateTable('invitations').set(change).where('id', '=', id).execute()
}

/** Of several concurrent calls with the same token only one succeeds. */
export function takeInvitation(
  tx: ChangeTx,
  { token_sha256, email, now }: { token_sha256: Buffer; email: string; now: Date },
): Promise<{ id: string; organization_id: string; role: Role } | undefined> {
  return tx
    .updateTable('invitations')
    .set({ accepted_at: now })
    .where('token_sha256', '=', token_sha256)
    .where('email', '=', email)
    .where('accepted_at', 'is', null)
    .where('revoked_at', 'is', null)
    .where('expires_at', '>', now)
    .returning(['id', 'organization_id', 'role'])
    .executeTakeFirst()
}

export async function forgetInvitations(db: Db, ended_before: Date): Promise<number> {
  return deleteOld(db, 'invitations', sql`created_at < ${ended_before} and coalesce(accepted_at, revoked_at, expires_at) < ${ended_before}`)
}
