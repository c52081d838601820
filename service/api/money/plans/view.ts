import { ENTITLEMENTS, type Entitlement, type PlanView } from '../../../../contract/schemas/plans.ts'
import type { PlanRow } from './store.ts'

export function entitlementsOf(row: PlanRow): Entitlement[] {
  const missing = new Set([...row.missing_limits, ...row.missing_volume_limits])
  return ENTITLEMENTS.map((name) => {
    const value = row[name]
    return { name, kind: value !== null ? 'value' : missing.has(name) ? 'missing' : 'unlimited', value }
  })
}

export function planView(row: PlanRow): PlanView {
  const { slug, name, currency, price_minor, cpu_hour_minor, ram_gib_hour_minor } = row
  return { slug, name, currency, price_minor, overage_rates: { cpu_hour_minor, ram_gib_hour_minor }, entitlements: entitlementsOf(row) }
}
