import { sql } from 'kysely'
import type { ChangeTx } from '../../../core/changes/mutate.ts'

/** Without these locks concurrent calls could exceed the limit. */
export async function lockSenders(tx: ChangeTx, names: readonly string[]): Promise<void> {
  for (const name of [...names].sort()) await sql`select pg_advisory_xact_lock(hashtextextended(${`feedback:${name}`}, 0))`.execute(tx)
}

/** @returns the time of the n-th newest message, or null. */
export async function receivedAt(
  tx: ChangeTx,
  of: { principal_id: string } | { organization_id: string },
  since: Date,
  n: number,
): Promise<Date | null> {
  const row = await tx
    .selectFrom('feedback')
    .select('received_at')
    .$if('principal_id' in of, (query) => query.where('principal_id', '=', 'principal_id' in of ? of.principal_id : ''))
    .$if('organization_id' in of, (query) => query.where('organization_id', '=', 'organization_id' in of ? of.organization_id : ''))
    .where('received_at', '>', since)
    .orderBy('received_at', 'desc')
    .offset(n - 1)
    .limit(1)
    .executeTakeFirst()
  return row?.received_at ?? null
}

export async function findFirst(
  tx: ChangeTx,
  principal_id: string,
  message_sha256: Buffer,
  since: Date,
): Promise<{ id: string; received_at: Date } | undefined> {
  return tx
    .selectFrom('feedback')
    .select(['id', 'received_at'])
    .where('principal_id', '=', principal_id)
    .where('message_sha256', '=', message_sha256)
    .where('duplicate_of', 'is', null)
    .where('received_at', '>', since)
    .executeTakeFirst()
}
