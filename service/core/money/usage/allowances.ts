import { ALLOWANCE_NAMES, METER_UNITS, type Allowance } from '../../../../contract/schemas/spend.ts'
import type { Units } from '../../../../contract/schemas/usage.ts'
import { ALLOWANCES } from '../admission/allowance.ts'

/** Included units of each allowance; null: unlimited. */
export type Included = Record<Allowance, number | null>

/** Credits in meter units, drawn in the period or still available. */
export type Granted = Record<Allowance, number>
export const NO_GRANTS: Granted = { cpu_hours: 0, ram_gib_hours: 0 }

export interface AllowanceUse {
  allowance: Allowance
  used_meter_units: number
  /** Includes the credits; null: unlimited. */
  included_meter_units: number | null
  granted_meter_units: number
}

export function allowancesUsed(included: Included, used: Units, granted: Granted): AllowanceUse[] {
  return ALLOWANCE_NAMES.map((allowance) => {
    const units = included[allowance]
    const granted_meter_units = units === null ? 0 : granted[allowance]
    const included_meter_units = units === null ? null : units * METER_UNITS + granted_meter_units
    return { allowance, used_meter_units: used[ALLOWANCES[allowance].meter], included_meter_units, granted_meter_units }
  })
}

export function isUsedUp(use: AllowanceUse): use is AllowanceUse & { included_meter_units: number } {
  return use.included_meter_units !== null && use.used_meter_units >= use.included_meter_units
}
