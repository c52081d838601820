import Type from 'typebox'
import { PAYERS, readers } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { IfMatch, Uuid } from '../../schemas/common.ts'
import { Entitlements, PlanList, Subscription } from '../../schemas/plans.ts'
import {
  EstimateQuery,
  GrantsQuery,
  Spend,
  SpendAlerts,
  SpendAlertsRequest,
  SpendPolicy,
  SpendPolicyRequest,
  UsageEstimate,
  UsageGrantList,
} from '../../schemas/spend.ts'

const organizationParams = Type.Object({ organization_id: Uuid() })
const etag = { ETag: 'The version, quoted' }

export const plansList = appRoute({
  id: 'plans.list',
  method: 'GET',
  path: '/v1/plans',
  summary: 'The plan catalog: plans that an operator has listed, the cheapest first',
  access: readers('self'),
  answers: { 200: { schema: PlanList, description: 'All of them, on one page' } },
  errors: {},
})

export const subscriptionGet = appRoute({
  id: 'plans.subscription',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/subscription',
  summary: 'The plan of an organization, and whether it may start anything under it',
  access: readers('organization'),
  params: organizationParams,
  answers: { 200: { schema: Subscription, description: 'The plan and its standing' } },
  errors: { not_found: NO_REASON },
})

export const entitlementsGet = appRoute({
  id: 'plans.entitlements',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/entitlements',
  summary: 'What the plan of an organization allows: a value, no limit, or nothing that it says',
  access: readers('organization'),
  params: organizationParams,
  answers: { 200: { schema: Entitlements, description: 'Each entitlement' } },
  errors: { not_found: NO_REASON },
})

export const spendGet = appRoute({
  id: 'spend.get',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/spend',
  summary: 'What is charged beyond the allowances in this billing period, and how far the cap is',
  access: readers('organization'),
  params: organizationParams,
  answers: { 200: { schema: Spend, description: 'Charges and cap' } },
  errors: { not_found: NO_REASON },
})

export const spendPolicyGet = appRoute({
  id: 'spend.policy_get',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/spend-policy',
  summary: 'Whether use beyond the allowances is charged, and up to which cap',
  access: readers('organization'),
  params: organizationParams,
  answers: { 200: { schema: SpendPolicy, headers: etag, description: 'The policy; off at version 0 where nobody has decided' } },
  errors: { not_found: NO_REASON },
})

export const spendPolicyPut = appRoute({
  id: 'spend.policy_put',
  method: 'PUT',
  path: '/v1/organizations/{organization_id}/spend-policy',
  summary: 'Turn overage on or off, and set its cap: in force within the interval at which counters are read',
  access: PAYERS,
  params: organizationParams,
  headers: IfMatch,
  body: SpendPolicyRequest,
  answers: { 200: { schema: SpendPolicy, headers: etag, description: 'The new version' } },
  errors: {
    not_found: NO_REASON,
    conflict: ['version_mismatch'],
    validation_failed: [
      'overage_unavailable',
      'spend_cap_required',
      'spend_cap_below_minimum',
      'spend_cap_above_plan_price',
      'spend_cap_below_charges',
    ],
  },
})

export const usageEstimate = appRoute({
  id: 'usage.estimate',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/usage/estimate',
  summary: 'What the billing period is going to cost, with one more workspace or without',
  access: readers('organization'),
  params: organizationParams,
  query: EstimateQuery,
  answers: { 200: { schema: UsageEstimate, description: 'The estimate' } },
  errors: { not_found: NO_REASON },
})

export const usageGrants = appRoute({
  id: 'usage.grants',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/usage/grants',
  summary: 'Credits of an organization beyond what its plan includes, newest first; the oldest is drawn first',
  access: readers('organization'),
  params: organizationParams,
  query: GrantsQuery,
  answers: { 200: { schema: UsageGrantList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const spendAlertsGet = appRoute({
  id: 'spend.alerts_get',
  method: 'GET',
  path: '/v1/organizations/{organization_id}/spend-alerts',
  summary: 'At how many percent of its cap and allowances an organization is told by mail, and what was reached in this billing period',
  access: PAYERS,
  params: organizationParams,
  answers: { 200: { schema: SpendAlerts, description: 'Thresholds and what was reached' } },
  errors: { not_found: NO_REASON },
})

export const spendAlertsPut = appRoute({
  id: 'spend.alerts_put',
  method: 'PUT',
  path: '/v1/organizations/{organization_id}/spend-alerts',
  summary: 'Set the thresholds; none: nobody is told. What was reached before in the billing period is not told again',
  access: PAYERS,
  params: organizationParams,
  body: SpendAlertsRequest,
  answers: { 200: { schema: SpendAlerts, description: 'As it is from then on' } },
  errors: { not_found: NO_REASON },
})
