import { sql } from 'kysely'
import type { ChangeTx } from '../../core/changes/mutate.ts'

/** Whoever changes the spend policy of an organization waits here for who does it already. */
export async function lockSpendPolicy(tx: ChangeTx, organization_id: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended('spend ' || ${organization_id}, 0))`.execute(tx)
}

export interface NewSpendPolicy {
  organization_id: string
  version: number
  overage_enabled: boolean
  spend_cap_minor: number | null
  enabled_in: Date | null
  changed_at: Date
}

/** Whoever writes it holds its lock. */
export async function writeSpendPolicy(tx: ChangeTx, policy: NewSpendPolicy): Promise<void> {
  const { organization_id: _, ...values } = policy
  await tx
    .insertInto('spend_policies')
    .values(policy)
    .onConflict((on) => on.column('organization_id').doUpdateSet(values))
    .execute()
}

interface Choice {
  overage_enabled: boolean
  spend_cap_minor: number | null
}

/**
 * Keeps in which billing periods overage was on, and its cap: what is charged for a period is asked after its end, and may have been decided
 * otherwise by then. What was on at the end of a period was on in those that followed it.
 */
export async function keepOverage(
  tx: ChangeTx,
  {
    organization_id,
    before,
    after,
    period_starts_at,
  }: { organization_id: string; before: Choice & { changed_at: Date | null }; after: Choice; period_starts_at: Date },
): Promise<void> {
  if (before.overage_enabled && before.changed_at !== null) {
    await sql`insert into overage_periods (organization_id, period_starts_at, spend_cap_minor)
      select ${organization_id}, at at time zone 'UTC', ${before.spend_cap_minor}::integer
      from generate_series(date_trunc('month', ${before.changed_at}::timestamptz at time zone 'UTC'), ${period_starts_at}::timestamptz at time zone 'UTC', '1 month') at
      on conflict do nothing`.execute(tx)
  }
  if (!after.overage_enabled) return
  const { spend_cap_minor } = after
  await tx
    .insertInto('overage_periods')
    .values({ organization_id, period_starts_at, spend_cap_minor })
    .onConflict((on) => on.columns(['organization_id', 'period_starts_at']).doUpdateSet({ spend_cap_minor }))
    .execute()
}
