import { LIMITS } from '../../../../contract/limits.ts'
import type { ReasonOf } from '../../../../contract/errors.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Prices, OveragePolicy } from './spend.ts'

export interface SpendRow extends Prices, OveragePolicy {
  /** 0: a policy was never set. */
  version: number
  changed_at: Date | null
  past_due: boolean
  allowance_exhausted: ReasonOf<'allowance_exhausted'> | null
  /** null: the default thresholds apply. */
  thresholds_percent: number[] | null
}

/** Columns of SpendRow, for organizations as g, plans as p, and spend_policies left-joined as s. */
export const SPEND_COLUMNS = `g.allowance_exhausted, p.cpu_hours, p.ram_gib_hours, p.currency, p.price_minor, p.cpu_hour_minor, p.ram_gib_hour_minor,
  coalesce(s.overage_enabled, false) as overage_enabled, s.spend_cap_minor, s.enabled_in, coalesce(s.version, 0) as version, s.changed_at,
  (select t.thresholds_percent from spend_alert_settings t where t.organization_id = g.id) as thresholds_percent,
  coalesce(g.refuses_starts, g.payment_refuses_starts, p.refuses_starts) is not distinct from 'payment_past_due' as past_due`

const OF_ORGANIZATION = `from organizations g join plans p on p.id = g.plan_id left join spend_policies s on s.organization_id = g.id
  where g.id = $1`

export async function readSpend(reads: Reader, organization_id: string): Promise<SpendRow | null> {
  const [row] = await reads.rows<SpendRow>('usage.spend', `select ${SPEND_COLUMNS} ${OF_ORGANIZATION}`, [organization_id])
  return row ?? null
}

export function thresholdsOf({ thresholds_percent }: Pick<SpendRow, 'thresholds_percent'>): readonly number[] {
  return thresholds_percent ?? LIMITS.spend.alert_thresholds_percent
}
