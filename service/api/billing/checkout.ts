import type { billingPortal, checkoutCreate } from '../../../contract/routes/app/billing.ts'
import type { Call, Reply } from '../../http/call.ts'
import { fail } from '../../lib/fail.ts'
import { maySeeOrganization, notFound } from '../auth/scope.ts'
import type { ApiDeps } from '../deps.ts'
import { listPlans } from '../plans/store.ts'

/** POST /v1/organizations/{organization_id}/checkout: an operator says which plan an organization has, and what is paid. */
export async function createCheckout({ who, params, body }: Call<typeof checkoutCreate>, { reads }: ApiDeps): Promise<Reply> {
  if (!maySeeOrganization(who, params.organization_id)) throw notFound('organization')
  const is_listed = (await listPlans(reads)).some(({ slug }) => slug === body.plan)
  const message = is_listed ? 'Plans are not bought here: the operator of this service sets them' : 'The catalog has no such plan'
  throw fail('validation_failed', 'plan_not_purchasable', message, { details: { field: 'plan' } })
}

/** POST /v1/organizations/{organization_id}/billing-portal: where an operator says what is paid, nobody has an account to manage. */
export async function openBillingPortal({ who, params }: Call<typeof billingPortal>, _: ApiDeps): Promise<Reply> {
  throw notFound(maySeeOrganization(who, params.organization_id) ? 'billing account' : 'organization')
}
