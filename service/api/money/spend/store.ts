import { sql } from 'kysely'
import type { ChangeTx } from '../../../core/changes/mutate.ts'

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

/** Requires the policy's lock. */
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
 * Charges are computed after a period's end, when the policy may differ, so each period's choice is stored. A choice lasts until it
 * changes.
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
