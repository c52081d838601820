import type { InvoiceLine } from '../../../contract/schemas/billing.ts'

/** An event as far as anybody here looks at it. What has become of its object is asked for: events come twice, late and out of order. */
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
  /** The id that it was made under here. */
  checkout_id: string | null
  subscription_id: string | null
}

export type RemoteInvoiceState = 'draft' | 'open' | 'paid' | 'void'

/**
 * Who collects the money for invoices that are written here. Everything may be asked again after a failure: what was made before is found,
 * and not made twice. Whatever goes wrong there is a PaymentError.
 */
export interface PaymentService {
  createCustomer(organization: { id: string; name: string }): Promise<string>
  createCheckout(checkout: {
    id: string
    customer_id: string
    plan: PlanToBuy
    expires_at: Date
  }): Promise<{ session_id: string; url: string }>
  /** @returns what it is then: one that was completed stays so. */
  endCheckout(session_id: string): Promise<RemoteCheckout>
  readCheckout(session_id: string): Promise<RemoteCheckout>
  /** @returns whether it goes on, and the slug of the plan that it is said to be of. */
  readSubscription(id: string): Promise<{ goes_on: boolean; plan: string | null }>
  renameSubscription(id: string, plan: Pick<PlanToBuy, 'slug' | 'name'>): Promise<void>
  endSubscription(id: string): Promise<void>
  /** @returns the address of a page where a person manages what they pay with, and ends the subscription. */
  openPortal(customer_id: string): Promise<string>
  /** Makes a draft. */
  createInvoice(customer_id: string, invoice: InvoiceToPush): Promise<string>
  /**
   * Puts the lines on a draft that has not all of them, and has it collected, where it is still wanted by then.
   * @returns whether it was.
   */
  completeInvoice(remote_id: string, customer_id: string, invoice: InvoiceToPush, is_wanted: () => Promise<boolean>): Promise<boolean>
  readInvoice(remote_id: string): Promise<RemoteInvoiceState>
  /** Ends an invoice there that was paid elsewhere, or that is not to be paid. */
  settleInvoice(remote_id: string, as: 'paid' | 'void'): Promise<void>
  /** @returns null: an event about something that nobody looks at here. 'unsigned': it is not the service's, or is too old. */
  readEvent(body: Buffer, signature: string, now: Date): PaymentEvent | null | 'unsigned'
}

/** The payment service did not do what it was asked for. Says nothing that came with the request: no key, no address of a person. */
export class PaymentError extends Error {
  readonly status: number | undefined
  readonly code: string | undefined

  constructor(message: string, { status, code }: { status?: number | undefined; code?: string | undefined } = {}) {
    super(message)
    this.status = status
    this.code = code
  }
}
