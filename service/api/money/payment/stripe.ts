import Stripe from 'stripe'
import { LIMITS } from '../../../../contract/limits.ts'
import { lineText } from './line-text.ts'
import {
  PaymentError,
  type InvoiceToPush,
  type PaymentEvent,
  type PaymentService,
  type PlanToBuy,
  type RemoteCheckout,
  type RemoteInvoiceState,
} from './service.ts'

export interface StripeConfig {
  secret_key: string
  webhook_secret: string
  api_url: string
  /** Page to which Stripe returns people. */
  return_url: string
}

const { call_seconds_max, event_age_seconds_max } = LIMITS.payment
const KINDS: readonly (readonly [prefix: string, kind: PaymentEvent['kind']])[] = [
  ['checkout.session.', 'checkout'],
  ['customer.subscription.', 'subscription'],
  ['invoice.', 'invoice'],
]
const OVER: ReadonlySet<string> = new Set(['canceled', 'incomplete_expired'])

/**
 * Stripe only collects invoices. A subscription in Stripe has price 0 and only authorizes charges. This service makes the invoices, so
 * prices, ledger and proration exist only here.
 */
export function openStripe({ secret_key, webhook_secret, api_url, return_url }: StripeConfig): PaymentService {
  const { protocol, hostname, port } = new URL(api_url)
  const stripe = new Stripe(secret_key, {
    protocol: protocol === 'http:' ? 'http' : 'https',
    host: hostname,
    port: port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port),
    timeout: call_seconds_max * 1000,
    maxNetworkRetries: 1,
    telemetry: false,
  })
  return {
    createCustomer: ({ id, name }) =>
      asking(async () => {
        const made = await stripe.customers.create({ name, metadata: { organization_id: id } }, once(`customer-${id}`))
        return made.id
      }),
    openPortal: (customer) => asking(async () => (await stripe.billingPortal.sessions.create({ customer, return_url })).url),
    ...checkoutsOf(stripe, return_url),
    ...subscriptionsOf(stripe),
    ...invoicesOf(stripe),
    readEvent: (body, signature, now) => readEvent(stripe, webhook_secret, body, signature, now),
  }
}

function checkoutsOf(stripe: Stripe, return_url: string): Pick<PaymentService, 'createCheckout' | 'endCheckout' | 'readCheckout'> {
  return {
    createCheckout: ({ id, customer_id, plan, expires_at }) =>
      asking(async () => {
        const { id: session_id, url } = await stripe.checkout.sessions.create(
          {
            mode: 'subscription',
            customer: customer_id,
            client_reference_id: id,
            line_items: [{ quantity: 1, price_data: priceOf(plan) }],
            payment_method_collection: 'always', // required, because a price of 0 would otherwise need none
            subscription_data: { metadata: { plan: plan.slug } },
            expires_at: Math.floor(expires_at.getTime() / 1000),
            success_url: return_url,
            cancel_url: return_url,
          },
          once(`checkout-${id}`),
        )
        if (url === null) throw new PaymentError('The payment service made a checkout without a page')
        return { session_id, url }
      }),
    endCheckout: (session_id) =>
      asking(async () => {
        const before = checkoutOf(await stripe.checkout.sessions.retrieve(session_id))
        return before.state === 'open' ? checkoutOf(await stripe.checkout.sessions.expire(session_id)) : before
      }),
    readCheckout: (session_id) => asking(async () => checkoutOf(await stripe.checkout.sessions.retrieve(session_id))),
  }
}

function subscriptionsOf(stripe: Stripe): Pick<PaymentService, 'readSubscription' | 'renameSubscription' | 'endSubscription'> {
  return {
    readSubscription: (id) =>
      asking(async () => {
        const { status, metadata } = await stripe.subscriptions.retrieve(id)
        return { goes_on: !OVER.has(status), plan: metadata['plan'] ?? null }
      }),
    renameSubscription: (id, { slug, name }) =>
      asking(async () => {
        await stripe.subscriptions.update(id, { description: name, metadata: { plan: slug } })
      }),
    endSubscription: (id) =>
      asking(async () => {
        const { status } = await stripe.subscriptions.retrieve(id)
        if (!OVER.has(status)) await stripe.subscriptions.cancel(id)
      }),
  }
}

function invoicesOf(stripe: Stripe): Pick<PaymentService, 'createInvoice' | 'completeInvoice' | 'readInvoice' | 'settleInvoice'> {
  const read = async (id: string) => stateOf((await stripe.invoices.retrieve(id)).status)
  return {
    createInvoice: (customer, { id, number, currency }) =>
      asking(async () => {
        const draft = {
          customer,
          currency: currency.toLowerCase(),
          collection_method: 'charge_automatically',
          auto_advance: false, // collected only after all lines are added
          pending_invoice_items_behavior: 'exclude',
          description: number,
          metadata: { invoice_id: id },
        } as const
        return (await stripe.invoices.create(draft, once(`invoice-${id}`))).id
      }),
    completeInvoice: (remote_id, customer, invoice, is_wanted) =>
      asking(async () => {
        if ((await read(remote_id)) !== 'draft') return true
        await addLines(stripe, remote_id, customer, invoice)
        const { total } = await stripe.invoices.retrieve(remote_id)
        if (total !== invoice.total_minor) throw new PaymentError(`Invoice ${invoice.number} has another total at the payment service`)
        if (!(await is_wanted())) return false
        await stripe.invoices.finalizeInvoice(remote_id, { auto_advance: true })
        return true
      }),
    readInvoice: (remote_id) => asking(() => read(remote_id)),
    settleInvoice: (remote_id, as) =>
      asking(async () => {
        const state = await read(remote_id)
        if (state === 'draft') await stripe.invoices.del(remote_id)
        if (state !== 'open') return
        if (as === 'paid') await stripe.invoices.pay(remote_id, { paid_out_of_band: true })
        else await stripe.invoices.voidInvoice(remote_id)
      }),
  }
}

/** Lists existing lines first. Stripe's idempotency keys expire after a day, and an outage may last longer. */
async function addLines(stripe: Stripe, invoice: string, customer: string, { id, currency, lines }: InvoiceToPush): Promise<void> {
  const there = new Set<string>()
  for await (const { metadata } of stripe.invoiceItems.list({ invoice, limit: 100 })) there.add(metadata?.['line'] ?? '')
  for (const [number, line] of lines.entries()) {
    if (there.has(String(number))) continue
    const item = {
      customer,
      invoice,
      currency: currency.toLowerCase(),
      amount: line.amount_minor,
      description: lineText(line),
      period: { start: seconds(line.starts_at), end: seconds(line.ends_at) },
      metadata: { line: String(number) },
    }
    await stripe.invoiceItems.create(item, once(`invoice-${id}-${number}`))
  }
}

function priceOf({ name, currency, price_minor }: PlanToBuy): Stripe.Checkout.SessionCreateParams.LineItem.PriceData {
  const amount = new Intl.NumberFormat('en', { style: 'currency', currency })
  const { maximumFractionDigits = 2 } = amount.resolvedOptions()
  const price = amount.format(price_minor / 10 ** maximumFractionDigits)
  const description = `${price} a month, and what is used beyond it as far as you allow it. Invoiced after the end of each month.`
  return { currency: currency.toLowerCase(), unit_amount: 0, recurring: { interval: 'month' }, product_data: { name, description } }
}

function checkoutOf({ status, client_reference_id, subscription }: Stripe.Checkout.Session): RemoteCheckout {
  const subscription_id = typeof subscription === 'string' ? subscription : (subscription?.id ?? null)
  const state = status === 'complete' ? 'complete' : status === 'expired' ? 'expired' : 'open'
  return { state, checkout_id: client_reference_id, subscription_id }
}

/** An `uncollectible` invoice remains open in Berth until an operator decides. */
function stateOf(status: string | null): RemoteInvoiceState {
  return status === 'draft' || status === 'paid' || status === 'void' ? status : 'open'
}

function readEvent(stripe: Stripe, webhook_secret: string, body: Buffer, signature: string, now: Date): PaymentEvent | null | 'unsigned' {
  try {
    const { id, type, data } = stripe.webhooks.constructEvent(
      body,
      signature,
      webhook_secret,
      event_age_seconds_max,
      undefined,
      now.getTime(),
    )
    return eventOf(id, type, data.object)
  } catch {
    return 'unsigned' // or the body is signed but is not an event
  }
}

function eventOf(id: string, type: string, object: object): PaymentEvent | null {
  const kind = KINDS.find(([prefix]) => type.startsWith(prefix))?.[1]
  const object_id = (object as { id?: unknown }).id
  return kind === undefined || typeof object_id !== 'string' ? null : { id, kind, object_id }
}

const once = (key: string) => ({ idempotencyKey: `berth-${key}` })
const seconds = (at: string) => Math.floor(Date.parse(at) / 1000)

/** Keeps only the fields that an operator needs: Stripe's errors contain the whole answer and parts of the request. */
async function asking<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripeError)) throw error
    const { type, code, statusCode: status, requestId } = error
    const what = [type, code, status, requestId].filter((each) => each !== undefined).join(', ')
    throw new PaymentError(`The payment service: ${what}`, { status, code })
  }
}
