import { sql } from 'kysely'
import type { ChangeTx } from '../../../core/changes/mutate.ts'

/** The budget is full again a day after its first use. @returns the time of that use if it is exhausted, else null. */
export async function takeFromBudget(
  tx: ChangeTx,
  name: string,
  tokens: number,
  { day_before, now }: { day_before: Date; now: Date },
): Promise<Date | null> {
  const { rows } = await sql`insert into rate_buckets as b (name, tokens, updated_at) values (${name}, ${tokens}::int - 1, ${now})
    on conflict (name) do update set
      tokens = case when b.updated_at <= ${day_before} then ${tokens}::int - 1 else b.tokens - 1 end,
      updated_at = case when b.updated_at <= ${day_before} then ${now} else b.updated_at end
    where b.tokens >= 1 or b.updated_at <= ${day_before}
    returning name`.execute(tx)
  if (rows.length > 0) return null
  const row = await tx.selectFrom('rate_buckets').select('updated_at').where('name', '=', name).executeTakeFirstOrThrow()
  return row.updated_at
}
