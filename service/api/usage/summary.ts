import type { usageSummary } from '../../../contract/routes/app/usage.ts'
import type { SpendCapView, UsageSummary } from '../../../contract/schemas/usage.ts'
import { ALLOWANCES } from '../../core/admission/allowance.ts'
import { allowancesUsed, type AllowanceUse } from '../../core/usage/allowances.ts'
import { periodOf } from '../../core/usage/period.ts'
import { readUsageTotals } from '../../core/usage/store.ts'
import type { Call, Reply } from '../../http/call.ts'
import { maySeeOrganization, notFound } from '../auth/scope.ts'
import type { ApiDeps } from '../deps.ts'
import { measurementOf } from './measurement.ts'
import { readAllowance } from './store.ts'

/** GET /v1/organizations/{organization_id}/usage/summary: an API key is told its own project's usage, and the organization's allowances. */
export async function getUsageSummary(call: Call<typeof usageSummary>, deps: ApiDeps): Promise<Reply> {
  const { who, now } = call
  const { organization_id } = call.params
  if (!maySeeOrganization(who, organization_id)) throw notFound('organization')
  const period = periodOf(now)
  const range = { from: period.starts_at, to: new Date(period.ends_at.getTime() - 1) }
  const of_all = { organization_id, project_id: null, subject: null }
  const own = who.type === 'api_key' ? { ...of_all, project_id: who.project_id } : null
  const [row, used, used_by_own, measurement] = await Promise.all([
    readAllowance(deps.reads, organization_id),
    readUsageTotals(deps.reads, of_all, range),
    own === null ? null : readUsageTotals(deps.reads, own, range),
    measurementOf(deps, organization_id, now),
  ])
  if (row === null) throw notFound('organization')
  const body: UsageSummary = {
    organization_id,
    period: { starts_at: period.starts_at.toISOString(), ends_at: period.ends_at.toISOString() },
    usage: used_by_own ?? used,
    allowances: allowancesUsed(row, used).map(allowanceView),
    allowance_exhausted: row.allowance_exhausted !== null,
    exhausted_reason: row.allowance_exhausted,
    spend_cap: NO_SPEND,
    measurement,
  }
  return { status: 200, body }
}

const METER_UNITS = 3600

function allowanceView({ allowance, used_meter_units, included_meter_units }: AllowanceUse): UsageSummary['allowances'][number] {
  const used_up = included_meter_units !== null && used_meter_units >= included_meter_units
  return {
    allowance,
    ...ALLOWANCES[allowance],
    state: included_meter_units === null ? 'unlimited' : used_up ? 'exhausted' : 'within',
    used: used_meter_units / METER_UNITS,
    included: included_meter_units === null ? null : included_meter_units / METER_UNITS,
    used_meter_units,
    included_meter_units,
  }
}

/** Plans have no rates: nothing is ever charged. */
const NO_SPEND: SpendCapView = {
  state: 'unavailable',
  cap_minor: null,
  effective_cap_minor: null,
  max_cap_minor: null,
  charges_minor: 0,
  remaining_minor: null,
  percent_of_cap: null,
  lines: [],
  projected_reached_at: null,
  currency: null,
}
