import type { Insertable } from 'kysely'
import type { EmailTokenPurpose } from '../../../contract/states/mail.ts'
import type { Tx } from '../../db/reader.ts'
import type { Database } from '../../db/schema.ts'
import type { ChangeTx } from '../changes/mutate.ts'

/** A retried mail inserts the same token again, which has no effect. */
export async function insertEmailToken(tx: Tx, token: Omit<Insertable<Database['email_tokens']>, 'used_at'>): Promise<void> {
  await tx
    .deleteFrom('email_tokens')
    .where('person_id', '=', token.person_id)
    .where('purpose', '=', token.purpose)
    .where('used_at', 'is', null)
    .where('token_sha256', '!=', token.token_sha256)
    .execute()
  await tx
    .insertInto('email_tokens')
    .values({ ...token, used_at: null })
    .onConflict((conflict) => conflict.column('token_sha256').doNothing())
    .execute()
}

/** A concurrent second use of the token gets undefined. */
export function useEmailToken(
  tx: ChangeTx,
  { token_sha256, purpose, person_id, now }: { token_sha256: Buffer; purpose: EmailTokenPurpose; person_id?: string; now: Date },
): Promise<{ person_id: string; email: string } | undefined> {
  return tx
    .updateTable('email_tokens')
    .set({ used_at: now })
    .where('token_sha256', '=', token_sha256)
    .where('purpose', '=', purpose)
    .where('used_at', 'is', null)
    .where('expires_at', '>', now)
    .$if(person_id !== undefined, (query) => query.where('person_id', '=', person_id ?? ''))
    .returning(['person_id', 'email'])
    .executeTakeFirst()
}

export async function dropEmailTokens(tx: ChangeTx, person_id: string, purpose: EmailTokenPurpose): Promise<void> {
  await tx
    .deleteFrom('email_tokens')
    .where('person_id', '=', person_id)
    .where('purpose', '=', purpose)
    .where('used_at', 'is', null)
    .execute()
}
