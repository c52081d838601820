import Type from 'typebox'
import { ANYONE, PAYERS } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { LIMITS } from '../../limits.ts'
import { appRoute } from '../../route.ts'
import {
  CheckoutRequest,
  HostedPage,
  Invoice,
  InvoiceList,
  InvoicesQuery,
  PaymentEventHeaders,
  PaymentEventReceived,
} from '../../schemas/billing.ts'
import { Uuid } from '../../schemas/common.ts'

const organizationParams = Type.Object({ organization_id: Uuid() })

export const invoicesList = appRoute({
  id: 'invoices.list',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/invoices',
  summary: 'Invoices of an organization, newest first',
  access: PAYERS,
  params: organizationParams,
  query: InvoicesQuery,
  answers: { 200: { schema: InvoiceList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const invoicesGet = appRoute({
  id: 'invoices.get',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/invoices/{invoice_id}',
  summary: 'An invoice: what each of its lines is for, and whether it is paid',
  access: PAYERS,
  params: Type.Object({ organization_id: Uuid(), invoice_id: Uuid() }),
  answers: { 200: { schema: Invoice, description: 'The invoice' } },
  errors: { not_found: NO_REASON },
})

export const checkoutCreate = appRoute({
  id: 'billing.checkout',
  method: 'POST',
  path: '/v1/organizations/{organization_id}/checkout',
  summary: 'Buy a plan of the catalog, where a payment service is connected; where an operator says what is paid, no plan can be bought',
  access: { ...PAYERS, step_up: true },
  params: organizationParams,
  body: CheckoutRequest,
  answers: { 201: { schema: HostedPage, description: 'Where the plan is paid' } },
  errors: {
    not_found: NO_REASON,
    validation_failed: ['plan_not_purchasable'],
    conflict: ['subscription_exists', 'checkout_superseded'],
  },
})

export const billingPortal = appRoute({
  id: 'billing.portal',
  method: 'POST',
  path: '/v1/organizations/{organization_id}/billing-portal',
  summary: 'Where means of payment and subscription are managed; 404 where the organization has paid nothing that way',
  access: { ...PAYERS, step_up: true },
  params: organizationParams,
  answers: { 201: { schema: HostedPage, description: 'The page' } },
  errors: { not_found: NO_REASON },
})

/** Anyone may call this route: its signature authenticates the payment service. */
export const paymentEvents = appRoute({
  id: 'payment.receive',
  method: 'POST',
  path: '/v1/payment-events/stripe',
  summary: 'Events of the payment service, as it signs them; 404 where none is connected',
  access: ANYONE,
  headers: PaymentEventHeaders,
  body: 'bytes',
  body_bytes_max: LIMITS.payment.event_bytes_max,
  answers: { 200: { schema: PaymentEventReceived, description: 'It is kept, or of no interest: a repeat changes nothing' } },
  errors: { bad_request: NO_REASON, not_found: NO_REASON, dependency_unavailable: NO_REASON },
})
