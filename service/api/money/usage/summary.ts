import type { usageSummary } from '../../../../contract/routes/app/usage.ts'
import { METER_UNITS } from '../../../../contract/schemas/spend.ts'
import type { UsageSummary } from '../../../../contract/schemas/usage.ts'
import { ALLOWANCES } from '../../../core/money/admission/allowance.ts'
import { allowancesUsed, isUsedUp, type AllowanceUse } from '../../../core/money/usage/allowances.ts'
import { periodOf, rangeOf } from '../../../core/money/usage/period.ts'
import { spendCapOf } from '../../../core/money/usage/spend.ts'
import type { SpendRow } from '../../../core/money/usage/spend-store.ts'
import { readUsageTotals } from '../../../core/money/usage/store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { periodView, readSpendFacts } from '../spend/facts.ts'
import { measurementOf } from './measurement.ts'
import type { ReadDeps } from '../../calls/deps.ts'

export async function getUsageSummary(call: Call<typeof usageSummary>, deps: ReadDeps): Promise<Reply> {
  const { who, now } = call
  const { organization_id } = call.params
  if (!maySeeOrganization(who, organization_id)) throw notFound('organization')
  const of_own = who.type === 'api_key' ? who.project_id : null
  const [facts, used_by_own, measurement] = await Promise.all([
    readSpendFacts(deps.reads, organization_id, now),
    of_own === null ? null : readUsageTotals(deps.reads, { organization_id, project_id: of_own, subject: null }, rangeOf(periodOf(now))),
    measurementOf(deps, organization_id, now),
  ])
  const { row, period, used, granted } = facts
  const body: UsageSummary = {
    organization_id,
    period: periodView(period),
    usage: used_by_own ?? used,
    allowances: allowancesUsed(row, used, granted).map((use) => allowanceView(use, row)),
    allowance_exhausted: row.allowance_exhausted !== null,
    exhausted_reason: row.allowance_exhausted,
    spend_cap: spendCapOf(facts, now),
    measurement,
  }
  return { status: 200, body }
}

function allowanceView(use: AllowanceUse, row: SpendRow): UsageSummary['allowances'][number] {
  const { allowance, used_meter_units, included_meter_units, granted_meter_units } = use
  return {
    allowance,
    ...ALLOWANCES[allowance],
    state: stateOf(use, row),
    used: used_meter_units / METER_UNITS,
    included: included_meter_units === null ? null : included_meter_units / METER_UNITS,
    used_meter_units,
    included_meter_units,
    granted_meter_units,
  }
}

function stateOf(use: AllowanceUse, { allowance_exhausted, overage_enabled }: SpendRow): UsageSummary['allowances'][number]['state'] {
  if (use.included_meter_units === null) return 'unlimited'
  if (!isUsedUp(use)) return 'within'
  return allowance_exhausted === null && overage_enabled ? 'overage' : 'exhausted'
}
