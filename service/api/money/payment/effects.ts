import { LIMITS } from '../../../../contract/limits.ts'
import { judgePayment } from '../../../core/money/billing/standing.ts'
import { endInvoice, recordTermsBefore, lockInvoice } from '../../../core/money/billing/store.ts'
import { serviceOrigin } from '../../../core/changes/audit.ts'
import { mutate, type ChangeTx } from '../../../core/changes/mutate.ts'
import { lockOrganization } from '../../../core/people/members/store.ts'
import { updateOrganization } from '../../../core/people/organizations/store.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import type { PaymentEvent, PaymentService } from './service.ts'
import {
  completeCheckout,
  endCheckout,
  findCheckout,
  findInvoice,
  findPlanOf,
  lockAccount,
  settleInvoice,
  supersede,
  writeSubscription,
} from './store.ts'
import type { CallDeps } from '../../calls/deps.ts'

export type PaymentDeps = Pick<CallDeps, 'db' | 'clock' | 'ids' | 'logger'> & { payment: PaymentService }

const { look_again_seconds } = LIMITS.payment

/** Idempotent, and independent of the order of events. */
export async function applyRemoteState(deps: PaymentDeps, { kind, object_id }: Pick<PaymentEvent, 'kind' | 'object_id'>): Promise<void> {
  switch (kind) {
    case 'checkout':
      return bringInCheckout(deps, object_id)
    case 'subscription':
      return bringInSubscription(deps, object_id)
    case 'invoice':
      return bringInInvoice(deps, object_id)
  }
}

const subjectOf = (organization_id: string, details: Record<string, string>) =>
  ({ kind: 'organization', id: organization_id, organization_id, project_id: null, details }) as const

/** A subscription that comes too late is ended at once. */
async function bringInCheckout(deps: PaymentDeps, session_id: string): Promise<void> {
  const { db, clock, payment } = deps
  const { state, checkout_id, subscription_id } = await payment.readCheckout(session_id)
  if (state === 'open' || checkout_id === null) return
  if (state === 'expired') return endCheckout(db, checkout_id, 'expired')
  if (subscription_id === null) return // not a checkout of this service
  await failpoint('payment.P1')
  const now = clock.now()
  const bought = await mutate(
    db,
    serviceOrigin('api', { ids: deps.ids, now }),
    'billing.buy',
    (tx) => buy(tx, { checkout_id, session_id, subscription_id, now }),
    (done) => (done.kind === 'bought' ? subjectOf(done.organization_id, { plan_id: done.plan_id, subscription_id }) : null),
  )
  if (bought.kind === 'too_late') return payment.endSubscription(subscription_id)
  if (bought.kind === 'bought') for (const page of bought.pages) await payment.endCheckout(page)
  await bringInSubscription(deps, subscription_id) // the subscription may have ended, and the event of its end may have been applied before
}

type Bought = { kind: 'bought'; organization_id: string; plan_id: string; pages: string[] } | { kind: 'too_late' | 'nothing' }
interface Paid {
  checkout_id: string
  session_id: string
  subscription_id: string
  now: Date
}

async function buy(tx: ChangeTx, { checkout_id, session_id, subscription_id, now }: Paid): Promise<Bought> {
  const found = await findCheckout(tx, checkout_id)
  if (found === undefined) return { kind: 'nothing' }
  const { organization_id, plan_id } = found
  const organization = await lockOrganization(tx, organization_id)
  const account = await lockAccount(tx, { organization_id })
  const checkout = await findCheckout(tx, checkout_id) // read again under the lock
  if (checkout?.state === 'completed') return { kind: 'nothing' }
  if (organization === undefined || account === undefined || organization.deleting_at !== null || account.subscription_id !== null)
    return { kind: 'too_late' }
  await completeCheckout(tx, checkout_id, session_id)
  await recordTermsBefore(tx, { organization_id }, now)
  await updateOrganization(tx, organization_id, { plan_id })
  const plan_before_id = organization.plan_id
  await writeSubscription(tx, organization_id, { subscription_id, plan_id, plan_before_id, look_at: later(now) })
  return { kind: 'bought', organization_id, plan_id, pages: await supersede(tx, organization_id) }
}

async function bringInSubscription({ db, clock, ids, payment }: PaymentDeps, subscription_id: string): Promise<void> {
  const { goes_on, plan: named } = await payment.readSubscription(subscription_id)
  if (goes_on) {
    const plan = await findPlanOf(db, subscription_id)
    if (plan !== undefined && plan.slug !== named) await payment.renameSubscription(subscription_id, plan)
    return
  }
  await failpoint('payment.P1')
  const now = clock.now()
  await mutate(
    db,
    serviceOrigin('api', { ids, now }),
    'billing.end',
    async (tx) => {
      const account = await lockAccount(tx, { subscription_id })
      if (account === undefined) return null
      const { organization_id, plan_id, plan_before_id } = account
      const organization = await lockOrganization(tx, organization_id)
      // If an operator has chosen another plan since, that plan remains.
      if (plan_before_id !== null && organization?.plan_id === plan_id) {
        await recordTermsBefore(tx, { organization_id }, now)
        await updateOrganization(tx, organization_id, { plan_id: plan_before_id })
      }
      await writeSubscription(tx, organization_id, { subscription_id: null, plan_id: null, plan_before_id: null, look_at: now })
      return organization_id
    },
    (organization_id) => (organization_id === null ? null : subjectOf(organization_id, { subscription_id })),
  )
}

/** Ignores the invoices that Stripe makes for a subscription: their total is always 0. */
async function bringInInvoice({ db, clock, ids, logger, payment }: PaymentDeps, remote_id: string): Promise<void> {
  const there = await findInvoice(db, { remote_id })
  if (there === undefined) return
  const state = await payment.readInvoice(remote_id)
  if (state !== 'paid' && state !== 'void') return
  await failpoint('payment.P1')
  const now = clock.now()
  const { id, organization_id, number } = there.invoice
  await mutate(
    db,
    serviceOrigin('api', { ids, now }),
    `invoices.${state}`,
    async (tx) => {
      const row = await lockInvoice(tx, id)
      if (row?.state === 'void' && state === 'paid')
        logger.error({ invoice: number }, 'an invoice that is void here was paid at the payment service')
      if (row?.state !== 'open') return false
      await endInvoice(tx, id, state === 'paid' ? { state, paid_at: now } : { state, voided_at: now })
      await judgePayment(tx, organization_id, now)
      return true
    },
    (ended) => (ended ? subjectOf(organization_id, { number }) : null),
  )
  await settleInvoice(db, id, now)
}

export function later(now: Date): Date {
  return new Date(now.getTime() + look_again_seconds * 1000)
}
