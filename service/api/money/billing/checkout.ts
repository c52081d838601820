import { LIMITS } from '../../../../contract/limits.ts'
import type { billingPortal, checkoutCreate } from '../../../../contract/routes/app/billing.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { lockOrganization } from '../../../core/people/members/store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { reportOutage } from '../payment/asked.ts'
import type { PaymentService, PlanToBuy } from '../payment/service.ts'
import { endCheckout, insertCheckout, keepAccount, lockAccount, readAccount, supersede, writePage } from '../payment/store.ts'
import { listPlans } from '../plans/store.ts'
import type { CallDeps, ChangeDeps, ReadDeps } from '../../calls/deps.ts'
import type { MoneyDeps } from '../deps.ts'

const CHECKOUT_MS = LIMITS.payment.checkout_minutes * 60_000
/** Checks the checkout one minute after its page has expired. */
const LOOK_MS = CHECKOUT_MS + 60_000

/** Without a payment service no plan can be bought: the operator sets the plan. */
export async function createCheckout(
  call: Call<typeof checkoutCreate>,
  deps: ChangeDeps & ReadDeps & Pick<MoneyDeps, 'payment' | 'payments'> & Pick<CallDeps, 'logger'>,
): Promise<Reply> {
  const { organization_id } = call.params
  if (!maySeeOrganization(call.who, organization_id)) throw notFound('organization')
  const { payment } = deps
  const plan = await planToBuy(call, deps)
  if (payment === null) throw notPurchasable('Plans are not bought here: the operator of this service sets them')
  const id = deps.ids.next()
  const begun = await begin(call, deps, { id, plan })
  try {
    const page = await reportOutage(deps.logger, () => makePage(call, deps, payment, { id, plan, ...begun }))
    return { status: 201, body: page }
  } catch (error) {
    await endCheckout(deps.db, id, 'expired') // a pending checkout would block others
    throw error
  }
}

async function planToBuy({ body }: Call<typeof checkoutCreate>, { reads }: ReadDeps): Promise<PlanToBuy & { id: string }> {
  const plan = (await listPlans(reads)).find(({ slug }) => slug === body.plan)
  if (plan === undefined) throw notPurchasable('The catalog has no such plan')
  const { id, slug, name, currency, price_minor } = plan
  if (currency === null || price_minor === null) throw notPurchasable('This plan has no price')
  return { id, slug, name, currency, price_minor }
}

interface Begun {
  name: string
  /** Pages of the superseded checkouts, which must be closed. */
  pages: string[]
}

function begin(call: Call<typeof checkoutCreate>, deps: ChangeDeps, { id, plan }: { id: string; plan: { id: string; slug: string } }) {
  const { organization_id } = call.params
  const { now } = call
  const work = async (tx: ChangeTx): Promise<Begun> => {
    const organization = await lockOrganization(tx, organization_id)
    if (organization === undefined) throw notFound('organization')
    if (((await lockAccount(tx, { organization_id }))?.subscription_id ?? null) !== null) throw subscribed()
    const pages = await supersede(tx, organization_id)
    const ends = { expires_at: new Date(now.getTime() + CHECKOUT_MS), look_at: new Date(now.getTime() + LOOK_MS) }
    await insertCheckout(tx, { id, organization_id, plan_id: plan.id, state: 'pending', session_id: null, created_at: now, ...ends })
    return { name: organization.name, pages }
  }
  const subject = { kind: 'organization', id: organization_id, organization_id, project_id: null, details: { plan: plan.slug } } as const
  return changing(deps, call, work, () => subject)
}

/** Runs outside any transaction. If another checkout superseded this one meanwhile, the page is closed again. */
async function makePage(
  { params: { organization_id }, now }: Call<typeof checkoutCreate>,
  { db, reads, payments }: ReadDeps & Pick<CallDeps, 'db'> & Pick<MoneyDeps, 'payments'>,
  payment: PaymentService,
  { id, plan, name, pages }: Begun & { id: string; plan: PlanToBuy },
) {
  const known = await readAccount(reads, organization_id)
  const account =
    known ??
    (await keepAccount(db, { ...nobody(organization_id, now), customer_id: await payment.createCustomer({ id: organization_id, name }) }))
  for (const page of pages) {
    if ((await payment.endCheckout(page)).state !== 'complete') continue
    payments.poke()
    throw subscribed() // the person has just paid, and the event will apply the plan
  }
  const expires_at = new Date(now.getTime() + CHECKOUT_MS)
  const { session_id, url } = await payment.createCheckout({ id, customer_id: account.customer_id, plan, expires_at })
  if (!(await writePage(db, id, session_id))) {
    await payment.endCheckout(session_id)
    throw fail('conflict', 'checkout_superseded', 'Another checkout of this organization was begun meanwhile')
  }
  return { url, expires_at: expires_at.toISOString() }
}

const nobody = (organization_id: string, created_at: Date) => ({
  organization_id,
  subscription_id: null,
  plan_id: null,
  plan_before_id: null,
  look_at: created_at,
  created_at,
})

const subscribed = () =>
  fail(
    'conflict',
    'subscription_exists',
    'This organization has bought a plan: end that subscription first, or ask the operator of this service',
  )

const notPurchasable = (message: string) => fail('validation_failed', 'plan_not_purchasable', message, { details: { field: 'plan' } })

export async function openBillingPortal(
  { who, params }: Call<typeof billingPortal>,
  { payment, reads, logger }: ReadDeps & Pick<MoneyDeps, 'payment'> & Pick<CallDeps, 'logger'>,
): Promise<Reply> {
  const { organization_id } = params
  if (!maySeeOrganization(who, organization_id)) throw notFound('organization')
  const account = payment === null ? undefined : await readAccount(reads, organization_id)
  if (payment === null || account === undefined) throw notFound('billing account')
  return { status: 201, body: { url: await reportOutage(logger, () => payment.openPortal(account.customer_id)), expires_at: null } }
}
