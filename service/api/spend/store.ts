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
