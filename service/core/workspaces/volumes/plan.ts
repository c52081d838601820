import { LIMITS } from '../../../../contract/limits.ts'
import type { ReasonOf } from '../../../../contract/errors.ts'
import { fail, type Failure } from '../../../lib/fail.ts'

/** A limit of null is unlimited. A limit that is not set is in `missing_volume_limits`. */
export interface VolumePlan {
  slug: string
  shared_volumes_max: number | null
  shared_volume_gib_max: number | null
  volume_attachments_per_workspace: number | null
  missing_volume_limits: readonly string[]
  refuses_starts: ReasonOf<'entitlement_required'> | null
  organization_refuses_starts: ReasonOf<'entitlement_required'> | null
  grace_until: Date | null
}

export const VOLUME_LIMIT_NAMES = ['shared_volumes_max', 'shared_volume_gib_max'] as const

export function volumeRefusal(plan: VolumePlan, quota_gib: number, live: number): Failure | null {
  return (
    entitlementRefusal(plan) ??
    quotaRefusal('shared_volume_gib_max', plan.shared_volume_gib_max, quota_gib - 1) ??
    quotaRefusal('shared_volumes_max', plan.shared_volumes_max, live)
  )
}

function entitlementRefusal(plan: VolumePlan): Failure | null {
  const { slug } = plan
  const missing = VOLUME_LIMIT_NAMES.filter((name) => plan.missing_volume_limits.includes(name))
  const standing = plan.organization_refuses_starts ?? plan.refuses_starts
  if (standing !== null) {
    const more = standing === 'payment_past_due' ? { grace_until: plan.grace_until?.toISOString() ?? null } : {}
    return fail('entitlement_required', standing, 'The plan does not allow a new volume as things are', {
      details: { plan: slug, ...more },
    })
  }
  if (plan.shared_volumes_max === 0) {
    return fail('entitlement_required', 'not_included', 'Volumes are no part of the plan', { details: { plan: slug } })
  }
  if (missing.length === 0) return null
  return fail('entitlement_required', 'limits_missing', 'The plan does not say its limits of volumes', { details: { plan: slug, missing } })
}

function quotaRefusal(limit: 'shared_volumes_max' | 'shared_volume_gib_max', limit_value: number | null, current: number): Failure | null {
  if (limit_value === null || current < limit_value) return null
  const told = limit === 'shared_volume_gib_max' ? current + 1 : current
  const what = limit === 'shared_volume_gib_max' ? 'so large a volume' : 'more volumes'
  return fail('quota_exceeded', null, `The plan does not allow ${what}`, { details: { limit, limit_value, current: told } })
}

export function attachmentsRefusal({ volume_attachments_per_workspace: of_plan }: VolumePlan, current: number): Failure | null {
  const limit_value = Math.min(of_plan ?? Infinity, LIMITS.volume.attachments_per_workspace_max)
  if (current < limit_value) return null
  return fail('quota_exceeded', null, 'The workspace has as many volumes as it may have', {
    details: { limit: 'volume_attachments_per_workspace', limit_value, current },
  })
}
