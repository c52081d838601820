import type { usageEstimate } from '../../../../contract/routes/app/money.ts'
import type { UsageEstimate } from '../../../../contract/schemas/spend.ts'
import type { Units } from '../../../../contract/schemas/usage.ts'
import { allowancesUsed } from '../../../core/money/usage/allowances.ts'
import { extrapolatedUsage, hasOverage, linesOf, type SpendFacts } from '../../../core/money/usage/spend.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { periodView, readSpendFacts } from '../spend/facts.ts'
import type { ReadDeps } from '../../calls/deps.ts'

type Asked = Call<typeof usageEstimate>['query']

const HOUR_MS = 3600_000
const HOUR_SECONDS = 3600

export async function getUsageEstimate({ who, params, query, now }: Call<typeof usageEstimate>, { reads }: ReadDeps): Promise<Reply> {
  const { organization_id } = params
  if (!maySeeOrganization(who, organization_id)) throw notFound('organization')
  const facts = await readSpendFacts(reads, organization_id, now)
  return { status: 200, body: { organization_id, ...estimateOf(facts, query, now) } satisfies UsageEstimate }
}

export function estimateOf(facts: SpendFacts, asked: Asked, now: Date): Omit<UsageEstimate, 'organization_id'> {
  const { prices, granted, period } = facts
  const more = unitsOf(asked, (period.ends_at.getTime() - now.getTime()) / HOUR_MS)
  const grown = extrapolatedUsage(facts, now, period.ends_at)
  const whole: Units = {
    ...grown,
    cpu_seconds: grown.cpu_seconds + more.cpu_hours,
    memory_gib_seconds: grown.memory_gib_seconds + more.ram_gib_hours,
  }
  const [used, estimated] = [allowancesUsed(prices, facts.used, granted), allowancesUsed(prices, whole, granted)]
  const overage_minor = overageOf(facts, whole)
  return {
    period: periodView(period),
    basis: 'average_so_far',
    allowances: estimated.map(({ allowance, used_meter_units, included_meter_units, granted_meter_units }, at) => ({
      allowance,
      used_meter_units: used[at]?.used_meter_units ?? 0,
      estimated_meter_units: used_meter_units,
      workspace_meter_units: more[allowance],
      included_meter_units,
      granted_meter_units,
    })),
    price_minor: prices.price_minor,
    overage_minor,
    total_minor: prices.price_minor === null ? null : prices.price_minor + overage_minor,
    currency: prices.currency,
  }
}

function unitsOf(
  { cpu_millis = 0, memory_mib = 0, hours = Infinity }: Asked,
  hours_left: number,
): { cpu_hours: number; ram_gib_hours: number } {
  const seconds = Math.max(0, Math.min(hours, hours_left)) * HOUR_SECONDS
  return { cpu_hours: Math.floor((cpu_millis * seconds) / 1000), ram_gib_hours: Math.floor((memory_mib * seconds) / 1024) }
}

function overageOf({ prices, choice, granted }: SpendFacts, whole: Units): number {
  const { overage_enabled, spend_cap_minor } = choice
  if (!hasOverage(prices) || !overage_enabled || spend_cap_minor === null) return 0
  const charges = linesOf(prices, whole, granted).reduce((sum, { amount_minor }) => sum + amount_minor, 0)
  return Math.min(charges, spend_cap_minor, prices.price_minor)
}
