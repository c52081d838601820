import { ALLOWANCE_NAMES, METER_UNITS, type Allowance } from '../../../contract/schemas/spend.ts'
import type { Units } from '../../../contract/schemas/usage.ts'
import { ALLOWANCES } from '../admission/allowance.ts'

/** What a plan includes in a period, in units of the allowance; null: without limit. */
export type Included = Record<Allowance, number | null>

/** Units of the meter that credits add to each allowance in a period: what was drawn of them in it, and what can still be drawn. */
export type Granted = Record<Allowance, number>
export const NO_GRANTS: Granted = { cpu_hours: 0, ram_gib_hours: 0 }

export interface AllowanceUse {
  allowance: Allowance
  used_meter_units: number
  /** With what credits add; null: without limit. */
  included_meter_units: number | null
  granted_meter_units: number
}

/** What is used of each allowance. Pure. */
export function allowancesUsed(included: Included, used: Units, granted: Granted): AllowanceUse[] {
  return ALLOWANCE_NAMES.map((allowance) => {
    const units = included[allowance]
    const granted_meter_units = units === null ? 0 : granted[allowance]
    const included_meter_units = units === null ? null : units * METER_UNITS + granted_meter_units
    return { allowance, used_meter_units: used[ALLOWANCES[allowance].meter], included_meter_units, granted_meter_units }
  })
}

/** Whether nothing of it is left. An allowance of nothing is used up from the start. */
export function isUsedUp(use: AllowanceUse): use is AllowanceUse & { included_meter_units: number } {
  return use.included_meter_units !== null && use.used_meter_units >= use.included_meter_units
}
