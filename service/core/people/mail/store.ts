import type { Insertable, Selectable } from 'kysely'
import type { MailKind } from '../../../../contract/states/mail.ts'
import type { Database } from '../../../db/schema.ts'
import type { Ids } from '../../../lib/ids.ts'
import type { ChangeTx } from '../../changes/mutate.ts'

export type Mail = Selectable<Database['mails']>

export type NewMail = { kind: MailKind; email: string } & Partial<
  Pick<Insertable<Database['mails']>, 'person_id' | 'invitation_id' | 'spend_alert_id'>
>

/** The mail is not sent if the change rolls back. */
export async function insertMail(tx: ChangeTx, { ids, now }: { ids: Ids; now: Date }, mail: NewMail): Promise<void> {
  const { person_id = null, invitation_id = null, spend_alert_id = null } = mail
  const times = { created_at: now, next_try_at: now, sent_at: null, given_up_at: null }
  await tx
    .insertInto('mails')
    .values({ id: ids.next(), kind: mail.kind, email: mail.email, person_id, invitation_id, spend_alert_id, ...times, last_error: null })
    .execute()
}
