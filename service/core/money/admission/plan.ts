import type { ReasonOf } from '../../../../contract/errors.ts'
import { fail, type Failure } from '../../../lib/fail.ts'
import { allowanceDetails } from './allowance.ts'

/** A limit of null is unlimited. A limit that is not set is in `missing_limits`. */
export interface Plan {
  slug: string
  concurrent_workspaces: number | null
  cpu_millis: number | null
  memory_mib: number | null
  disk_gib: number | null
  missing_limits: readonly string[]
  refuses_starts: ReasonOf<'entitlement_required'> | null
  /** The organization's own refusal, which takes precedence over the plan's. */
  organization_refuses_starts: ReasonOf<'entitlement_required'> | null
  grace_until: Date | null
  allowance_exhausted: ReasonOf<'allowance_exhausted'> | null
  allowance: object | null
}

export const LIMIT_NAMES = ['concurrent_workspaces', 'cpu_millis', 'memory_mib', 'disk_gib'] as const

const ENTITLEMENT_MESSAGES: Record<string, string> = {
  no_plan: 'The organization has no plan',
  limits_missing: 'The plan does not say its limits',
  payment_past_due: 'A payment of the plan is past due, new starts are refused',
  unpaid: 'The plan is unpaid',
  operator_hold: 'The operator of this service has put starts on hold',
}

/** @returns the refusal of a start (App, "Reasons" of 402); null: starts are allowed. */
export function startRefusal(plan: Plan): Failure | null {
  const reason = plan.organization_refuses_starts ?? plan.refuses_starts ?? (plan.missing_limits.length > 0 ? 'limits_missing' : null)
  if (reason !== null) return entitlementRefusal(plan, reason)
  if (plan.allowance_exhausted !== null) {
    return fail('allowance_exhausted', plan.allowance_exhausted, 'A compute allowance of the organization is used up', {
      details: allowanceDetails(plan.allowance, plan.slug),
    })
  }
  return null
}

function entitlementRefusal({ slug, missing_limits, grace_until }: Plan, reason: ReasonOf<'entitlement_required'>): Failure {
  const message = ENTITLEMENT_MESSAGES[reason] ?? 'The plan does not allow this start'
  if (reason === 'limits_missing') {
    const missing = LIMIT_NAMES.filter((name) => missing_limits.includes(name))
    return fail('entitlement_required', reason, message, { details: { plan: slug, missing } })
  }
  if (reason === 'payment_past_due') {
    const details = { plan: slug, grace_until: grace_until?.toISOString() ?? null }
    return fail('entitlement_required', reason, message, { details })
  }
  return fail('entitlement_required', reason, message, { details: { plan: slug } })
}

export function concurrencyRefusal(plan: Plan, running: number): Failure | null {
  if (plan.concurrent_workspaces === null || running < plan.concurrent_workspaces) return null
  return fail('quota_exceeded', null, 'The plan does not allow more workspaces to run at once', {
    details: { limit: 'concurrent_workspaces', limit_value: plan.concurrent_workspaces, current: running },
  })
}
