import { createCheckout, openBillingPortal } from './billing/checkout.ts'
import { getEntitlements, getSubscription, listCatalog } from './plans/get.ts'
import { getInvoice, listInvoicesOfOrganization } from './billing/invoices.ts'
import { getSpend } from './spend/get.ts'
import { getSpendAlerts, putSpendAlerts } from './spend/alerts.ts'
import { getSpendPolicy, putSpendPolicy } from './spend/policy.ts'
import { getUsageEstimate } from './usage/estimate.ts'
import { getUsageOfOrganization, getUsageOfWorkspace } from './usage/series.ts'
import { getUsageSummary } from './usage/summary.ts'
import { listGrantsOfOrganization } from './usage/grants.ts'
import { receivePaymentEvent } from './payment/receive.ts'

export const MONEY_HANDLERS = {
  'usage.summary': getUsageSummary,
  'usage.series': getUsageOfOrganization,
  'usage.workspace': getUsageOfWorkspace,
  'usage.estimate': getUsageEstimate,
  'plans.list': listCatalog,
  'plans.subscription': getSubscription,
  'plans.entitlements': getEntitlements,
  'spend.get': getSpend,
  'spend.policy_get': getSpendPolicy,
  'spend.policy_put': putSpendPolicy,
  'spend.alerts_get': getSpendAlerts,
  'spend.alerts_put': putSpendAlerts,
  'usage.grants': listGrantsOfOrganization,
  'invoices.list': listInvoicesOfOrganization,
  'invoices.get': getInvoice,
  'billing.checkout': createCheckout,
  'billing.portal': openBillingPortal,
  'payment.receive': receivePaymentEvent,
}
