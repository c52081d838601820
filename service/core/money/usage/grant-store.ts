import { sql } from 'kysely'
import type { Reader, Tx } from '../../../db/reader.ts'
import type { Draw, Grant } from './grants.ts'

/** Reads the grants, oldest first. */
export function readGrants(reads: Reader, organization_id: string, period_starts_at: Date): Promise<Grant[]> {
  return reads.rows(
    'usage.grants',
    `select * from (
       select g.id, g.allowance, g.granted_meter_units, g.created_at, g.expires_at, g.revoked_at,
         coalesce(sum(d.meter_units), 0)::bigint as drawn_meter_units,
         coalesce(sum(d.meter_units) filter (where d.period_starts_at = $2), 0)::bigint as drawn_in_period
       from usage_grants g left join usage_grant_draws d on d.grant_id = g.id where g.organization_id = $1 group by g.id
     ) g where drawn_in_period > 0
       or ((revoked_at is null or revoked_at > $2) and drawn_meter_units < granted_meter_units and (expires_at is null or expires_at > $2))
     order by created_at, uuid_send(id)`,
    [organization_id, period_starts_at],
  )
}

/** Two concurrent draws must not use the same units. */
export async function lockGrants(tx: Tx, organization_id: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended('grants ' || ${organization_id}, 0))`.execute(tx)
}

/** The caller must have called `lockGrants`. */
export async function writeDraws(tx: Tx, draws: readonly Draw[], period_starts_at: Date, drawn_at: Date): Promise<void> {
  await tx
    .insertInto('usage_grant_draws')
    .values(draws.map((draw) => ({ ...draw, period_starts_at, drawn_at })))
    .onConflict((on) =>
      on.columns(['grant_id', 'period_starts_at']).doUpdateSet((e) => ({
        meter_units: e('usage_grant_draws.meter_units', '+', e.ref('excluded.meter_units')),
        drawn_at,
      })),
    )
    .execute()
}
