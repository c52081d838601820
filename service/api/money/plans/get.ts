import type { entitlementsGet, plansList, subscriptionGet } from '../../../../contract/routes/app/money.ts'
import type { Subscription } from '../../../../contract/schemas/plans.ts'
import type { ReasonOf } from '../../../../contract/errors.ts'
import { periodOf } from '../../../core/money/usage/period.ts'
import type { Call, Principal, Reply } from '../../../http/call.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { periodView } from '../spend/facts.ts'
import { listPlans, readStanding, type StandingRow } from './store.ts'
import { entitlementsOf, planView } from './view.ts'
import type { ReadDeps } from '../../calls/deps.ts'

export async function listCatalog(_: Call<typeof plansList>, { reads }: ReadDeps): Promise<Reply> {
  return { status: 200, body: { data: (await listPlans(reads)).map(planView), next_cursor: null } }
}

export async function getSubscription({ who, params, now }: Call<typeof subscriptionGet>, deps: ReadDeps): Promise<Reply> {
  const { organization_id } = params
  const row = await standingOf(deps, who, organization_id)
  const refuses_starts = row.refuses_starts ?? (row.missing_limits.length > 0 ? 'limits_missing' : null)
  const body: Subscription = {
    organization_id,
    plan: planView(row),
    state: stateOf(row.refuses_starts),
    refuses_starts,
    grace_until: row.grace_until?.toISOString() ?? null,
    current_period: periodView(periodOf(now)),
    payment: row.is_bought ? 'stripe' : 'manual',
  }
  return { status: 200, body }
}

export async function getEntitlements({ who, params }: Call<typeof entitlementsGet>, deps: ReadDeps): Promise<Reply> {
  const { organization_id } = params
  const row = await standingOf(deps, who, organization_id)
  return { status: 200, body: { organization_id, plan: row.slug, entitlements: entitlementsOf(row) } }
}

async function standingOf({ reads }: ReadDeps, who: Principal, organization_id: string): Promise<StandingRow> {
  const row = maySeeOrganization(who, organization_id) ? await readStanding(reads, organization_id) : null
  if (row === null) throw notFound('organization')
  return row
}

function stateOf(reason: ReasonOf<'entitlement_required'> | null): Subscription['state'] {
  switch (reason) {
    case null:
    case 'limits_missing':
    case 'not_included':
      return 'active'
    case 'payment_past_due':
      return 'past_due'
    case 'unpaid':
      return 'unpaid'
    case 'operator_hold':
      return 'on_hold'
    case 'no_plan':
      return 'none'
  }
}
