import { LIMITS } from '../../../../contract/limits.ts'
import type { spendPolicyGet, spendPolicyPut } from '../../../../contract/routes/app/money.ts'
import type { SpendPolicy } from '../../../../contract/schemas/spend.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { chargesOf, hasOverage, type SpendFacts } from '../../../core/money/usage/spend.ts'
import { readSpend, type SpendRow, thresholdsOf } from '../../../core/money/usage/spend-store.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { etagOf, refuseStaleVersion } from '../../calls/if-match.ts'
import { readSpendFacts } from './facts.ts'
import { keepOverage, lockSpendPolicy, writeSpendPolicy } from './store.ts'
import type { ChangeDeps, ReadDeps } from '../../calls/deps.ts'

export async function getSpendPolicy({ who, params }: Call<typeof spendPolicyGet>, { reads }: ReadDeps): Promise<Reply> {
  const { organization_id } = params
  const row = maySeeOrganization(who, organization_id) ? await readSpend(reads, organization_id) : null
  if (row === null) throw notFound('organization')
  return answerOf(organization_id, row)
}

export async function putSpendPolicy(call: Call<typeof spendPolicyPut>, deps: ChangeDeps): Promise<Reply> {
  const { who, now, body } = call
  const { organization_id } = call.params
  if (!maySeeOrganization(who, organization_id)) throw notFound('organization')
  const work = async (tx: ChangeTx): Promise<SpendRow> => {
    await lockSpendPolicy(tx, organization_id)
    const { row, ...facts } = await readSpendFacts(readerOf(tx), organization_id, now)
    refuseStaleVersion(call.named_headers, row.version)
    const spend_cap_minor = body.spend_cap_minor ?? row.spend_cap_minor
    const { overage_enabled } = body
    if (overage_enabled) refuseCap(facts, spend_cap_minor)
    const enabled_in = overage_enabled || row.overage_enabled ? facts.period.starts_at : row.enabled_in
    const made = { version: row.version + 1, overage_enabled, spend_cap_minor, enabled_in, changed_at: now }
    await keepOverage(tx, { organization_id, before: row, after: made, period_starts_at: facts.period.starts_at })
    await writeSpendPolicy(tx, { organization_id, ...made })
    return { ...row, ...made }
  }
  const made = await changing(deps, call, work, ({ overage_enabled, spend_cap_minor, version }) => {
    const details = { overage_enabled, spend_cap_minor, version }
    return { kind: 'organization', id: organization_id, organization_id, project_id: null, details }
  })
  return answerOf(organization_id, made)
}

/** The specification (App, "Reasons", spend policy) lists these refusals. */
function refuseCap(facts: SpendFacts, cap_minor: number | null): void {
  const { prices } = facts
  const min_minor = LIMITS.spend.cap_minor_min
  if (!hasOverage(prices)) throw refused('overage_unavailable', 'The plan has no rates for use beyond its allowances')
  if (cap_minor === null) throw refused('spend_cap_required', 'Overage needs a spend cap')
  if (cap_minor < min_minor) throw refused('spend_cap_below_minimum', `The cap is ${min_minor} at least`, { min_minor })
  const { price_minor: max_minor } = prices
  if (cap_minor > max_minor) throw refused('spend_cap_above_plan_price', 'The cap may not exceed the price of the plan', { max_minor })
  const { charges_minor } = chargesOf(facts)
  if (cap_minor < charges_minor) throw refused('spend_cap_below_charges', 'More than this was charged already', { charges_minor })
}

function refused(
  reason:
    | 'overage_unavailable'
    | 'spend_cap_required'
    | 'spend_cap_below_minimum'
    | 'spend_cap_above_plan_price'
    | 'spend_cap_below_charges',
  message: string,
  details: Record<string, number> = {},
) {
  const field = reason === 'overage_unavailable' ? 'overage_enabled' : 'spend_cap_minor'
  return fail('validation_failed', reason, message, { details: { field, ...details } })
}

function answerOf(organization_id: string, row: SpendRow): Reply {
  const available = hasOverage(row)
  const body: SpendPolicy = {
    organization_id,
    overage_available: available,
    overage_enabled: row.overage_enabled,
    overage_state: !available ? 'unavailable' : !row.overage_enabled ? 'off' : row.past_due ? 'paused' : 'on',
    spend_cap_minor: row.spend_cap_minor,
    spend_cap_min_minor: available ? LIMITS.spend.cap_minor_min : null,
    spend_cap_max_minor: available ? row.price_minor : null,
    rates: { cpu_hour_minor: row.cpu_hour_minor, ram_gib_hour_minor: row.ram_gib_hour_minor },
    currency: row.currency,
    alert_thresholds_percent: [...thresholdsOf(row)],
    version: row.version,
    updated_at: row.changed_at?.toISOString() ?? null,
  }
  return { status: 200, body, headers: etagOf(row.version) }
}
