import { METER_UNITS, type Allowance } from '../../../../contract/schemas/spend.ts'
import type { Units } from '../../../../contract/schemas/usage.ts'
import { ALLOWANCES } from '../admission/allowance.ts'
import { NO_GRANTS, type Granted, type Included } from './allowances.ts'

export interface Grant {
  id: string
  allowance: Allowance
  granted_meter_units: number
  drawn_meter_units: number
  drawn_in_period: number
  created_at: Date
  expires_at: Date | null
  revoked_at: Date | null
}

export function remainingOf(grant: Omit<Grant, 'drawn_in_period'>, at: Date): number {
  const { granted_meter_units, drawn_meter_units, created_at, expires_at, revoked_at } = grant
  const ends_at = [expires_at, revoked_at].filter((end) => end !== null)
  const is_good = created_at <= at && ends_at.every((end) => end > at)
  return is_good ? Math.max(0, granted_meter_units - drawn_meter_units) : 0
}

/** Draws of the period are included even after the grant has ended. */
export function grantedBy(grants: readonly Grant[], now: Date): Granted {
  const granted = { ...NO_GRANTS }
  for (const grant of grants) granted[grant.allowance] += grant.drawn_in_period + remainingOf(grant, now)
  return granted
}

export interface Draw {
  grant_id: string
  meter_units: number
}

/**
 * Earlier draws of the period are subtracted, so a repeated call draws nothing.
 * @param grants oldest first.
 */
export function drawsOf(included: Included, used: Units, grants: readonly Grant[], now: Date): Draw[] {
  const missing = new Map<Allowance, number>()
  for (const [allowance, { meter }] of Object.entries(ALLOWANCES) as [Allowance, (typeof ALLOWANCES)[Allowance]][]) {
    const units = included[allowance]
    const drawn = grants.reduce((sum, grant) => (grant.allowance === allowance ? sum + grant.drawn_in_period : sum), 0)
    missing.set(allowance, units === null ? 0 : Math.max(0, used[meter] - units * METER_UNITS - drawn))
  }
  return grants.flatMap((grant) => {
    const wanted = missing.get(grant.allowance) ?? 0
    const meter_units = Math.min(wanted, remainingOf(grant, now))
    missing.set(grant.allowance, wanted - meter_units)
    return meter_units > 0 ? [{ grant_id: grant.id, meter_units }] : []
  })
}
