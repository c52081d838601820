import Type from 'typebox'
import { PAYERS } from '../../access.ts'
import { ALONE } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { CheckoutRequest, HostedPage, Invoice, InvoiceList, InvoicesQuery } from '../../schemas/billing.ts'
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
  errors: { not_found: ALONE },
})

export const invoicesGet = appRoute({
  id: 'invoices.get',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/invoices/{invoice_id}',
  summary: 'An invoice: what each of its lines is for, and whether it is paid',
  access: PAYERS,
  params: Type.Object({ organization_id: Uuid(), invoice_id: Uuid() }),
  answers: { 200: { schema: Invoice, description: 'The invoice' } },
  errors: { not_found: ALONE },
})

export const checkoutCreate = appRoute({
  id: 'billing.checkout',
  method: 'POST',
  path: '/v1/organizations/{organization_id}/checkout',
  summary: 'Buy a plan of the catalog, where plans can be bought; where an operator marks what is paid, no plan can',
  access: { ...PAYERS, step_up: true },
  params: organizationParams,
  body: CheckoutRequest,
  answers: { 201: { schema: HostedPage, description: 'Where the plan is paid' } },
  errors: { not_found: ALONE, validation_failed: ['plan_not_purchasable'] },
})

export const billingPortal = appRoute({
  id: 'billing.portal',
  method: 'POST',
  path: '/v1/organizations/{organization_id}/billing-portal',
  summary: 'Where means of payment and subscription are managed; 404 where the organization has paid nothing that way',
  access: { ...PAYERS, step_up: true },
  params: organizationParams,
  answers: { 201: { schema: HostedPage, description: 'The page' } },
  errors: { not_found: ALONE },
})

export const BILLING_ROUTES = [invoicesList, invoicesGet, checkoutCreate, billingPortal]
