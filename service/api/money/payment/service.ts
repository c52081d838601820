import type { InvoiceLine } from '../../../../contract/schemas/billing.ts'

/** Events may arrive twice, late and out of order. The worker therefore reads the object's current state. */
export interface PaymentEvent {
  id: string
  kind: 'checkout' | 'subscription' | 'invoice'
  object_id: string
}

export interface PlanToBuy {
  slug: string
  name: string
  currency: string
  price_minor: number
}

export interface InvoiceToPush {
  id: string
  number: string
  currency: string
  lines: readonly InvoiceLine[]
  total_minor: number
}

export interface RemoteCheckout {
  state: 'open' | 'complete' | 'expired'
  checkout_id: string | null
  subscription_id: string | null
}

export type RemoteInvoiceState = 'draft' | 'open' | 'paid' | 'void'

/** Every call can be repeated after a failure without duplicates. Failures are thrown as PaymentErrors. */
export interface PaymentService {
  createCustomer(organization: { id: string; name: string }): Promise<string>
  createCheckout(checkout: {
    id: string
    customer_id: string
    plan: PlanToBuy
    expires_at: Date
  }): Promise<{ session_id: string; url: string }>
  /** @returns the checkout's final state. */
  endCheckout(session_id: string): Promise<RemoteCheckout>
  readCheckout(session_id: string): Promise<RemoteCheckout>
  /** `plan` is the slug in the subscription's metadata. */
  readSubscription(id: string): Promise<{ goes_on: boolean; plan: string | null }>
  renameSubscription(id: string, plan: Pick<PlanToBuy, 'slug' | 'name'>): Promise<void>
  endSubscription(id: string): Promise<void>
  /** @returns the URL of the portal. */
  openPortal(customer_id: string): Promise<string>
  createInvoice(customer_id: string, invoice: InvoiceToPush): Promise<string>
  /** @returns false if `is_wanted` prevented the collection of the invoice. */
  completeInvoice(remote_id: string, customer_id: string, invoice: InvoiceToPush, is_wanted: () => Promise<boolean>): Promise<boolean>
  readInvoice(remote_id: string): Promise<RemoteInvoiceState>
  settleInvoice(remote_id: string, as: 'paid' | 'void'): Promise<void>
  /** @returns null: the event does not matter. 'unsigned': the signature is wrong or too old. */
  readEvent(body: Buffer, signature: string, now: Date): PaymentEvent | null | 'unsigned'
}

/** May be logged: contains no key and no personal address. */
export class PaymentError extends Error {
  readonly status: number | undefined
  readonly code: string | undefined

  constructor(message: string, { status, code }: { status?: number | undefined; code?: string | undefined } = {}) {
    super(message)
    this.status = status
    this.code = code
  }
}
