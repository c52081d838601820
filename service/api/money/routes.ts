import { billingPortal, checkoutCreate, invoicesGet, invoicesList, paymentEvents } from '../../../contract/routes/app/billing.ts'
import {
  entitlementsGet,
  plansList,
  spendAlertsGet,
  spendAlertsPut,
  spendGet,
  spendPolicyGet,
  spendPolicyPut,
  subscriptionGet,
  usageEstimate,
  usageGrants,
} from '../../../contract/routes/app/money.ts'
import { bind, type Bound } from '../../http/call.ts'
import { createCheckout, openBillingPortal } from './billing/checkout.ts'
import { getInvoice, listInvoicesOfOrganization } from './billing/invoices.ts'
import { receivePaymentEvent } from './payment/receive.ts'
import { getEntitlements, getSubscription, listCatalog } from './plans/get.ts'
import { getSpendAlerts, putSpendAlerts } from './spend/alerts.ts'
import { getSpend } from './spend/get.ts'
import { getSpendPolicy, putSpendPolicy } from './spend/policy.ts'
import { getUsageEstimate } from './usage/estimate.ts'
import { listGrantsOfOrganization } from './usage/grants.ts'
import type { ApiDeps } from '../deps.ts'
import type { WaitPermit } from '../calls/held-places.ts'

export const MONEY_BOUND: readonly Bound<ApiDeps, WaitPermit>[] = [
  bind(usageEstimate, getUsageEstimate),
  bind(plansList, listCatalog),
  bind(subscriptionGet, getSubscription),
  bind(entitlementsGet, getEntitlements),
  bind(spendGet, getSpend),
  bind(spendPolicyGet, getSpendPolicy),
  bind(spendPolicyPut, putSpendPolicy),
  bind(spendAlertsGet, getSpendAlerts),
  bind(spendAlertsPut, putSpendAlerts),
  bind(usageGrants, listGrantsOfOrganization),
  bind(invoicesList, listInvoicesOfOrganization),
  bind(invoicesGet, getInvoice),
  bind(checkoutCreate, createCheckout),
  bind(billingPortal, openBillingPortal),
  bind(paymentEvents, receivePaymentEvent),
]
