import Type, { type Static } from 'typebox'
import { List, Nullable, PageQuery, strict, Text, Timestamp, Uuid, Enum } from './common.ts'
import { ALLOWANCE_NAMES, PeriodView } from './spend.ts'

/** `manual`: an operator marks invoices as paid. `stripe`: Stripe collects invoices and reports payments. */
export const PAYMENTS = ['manual', 'stripe'] as const
export type Payment = (typeof PAYMENTS)[number]

export const INVOICE_STATES = ['open', 'paid', 'void'] as const
export type InvoiceState = (typeof INVOICE_STATES)[number]

export const INVOICE_LINE_KINDS = ['plan', 'overage', 'cap'] as const
const InvoiceLine = Type.Object(
  {
    kind: Enum(INVOICE_LINE_KINDS, {
      description:
        'plan: its price for a part of the period; overage: use beyond an allowance; cap: what is taken off, since no period costs more than its cap',
    }),
    plan: Type.String({ description: 'Slug of the plan' }),
    starts_at: Timestamp(),
    ends_at: Timestamp(),
    allowance: Nullable(Enum(ALLOWANCE_NAMES)),
    units: Nullable(Type.Integer({ description: 'Whole hours beyond the allowance' })),
    unit_minor: Nullable(Type.Integer({ description: 'The price of a whole period, or of a unit' })),
    amount_minor: Type.Integer(),
  },
  { title: 'InvoiceLine' },
)
export type InvoiceLine = Static<typeof InvoiceLine>

export const Invoice = Type.Object(
  {
    id: Uuid(),
    organization_id: Uuid(),
    number: Type.String(),
    state: Enum(INVOICE_STATES),
    period: PeriodView,
    currency: Type.String(),
    lines: Type.Array(InvoiceLine),
    total_minor: Type.Integer({ description: 'Smallest units of the currency: the sum of the lines' }),
    issued_at: Timestamp(),
    due_at: Timestamp('From then on new starts are refused until it is paid'),
    paid_at: Nullable(Timestamp()),
    voided_at: Nullable(Timestamp()),
  },
  { title: 'Invoice' },
)
export type Invoice = Static<typeof Invoice>
export const InvoiceList = List(Invoice, 'InvoiceList')
export const InvoicesQuery = Type.Object(PageQuery)

export const CheckoutRequest = Type.Object(
  { plan: Text({ minLength: 1, maxLength: 63, description: 'Slug of a plan of the catalog' }) },
  { ...strict, title: 'CheckoutRequest' },
)
export const PaymentEventHeaders = Type.Object({
  'Stripe-Signature': Type.Optional(
    Type.String({ description: 'Time and signatures of the body, by the secret that the payment service shares' }),
  ),
})
export const PaymentEventReceived = Type.Object({ received: Type.Literal(true) }, { title: 'PaymentEventReceived' })

export const HostedPage = Type.Object(
  { url: Type.String({ description: 'Where the person goes on' }), expires_at: Nullable(Timestamp()) },
  { title: 'HostedPage' },
)
