import type { Units } from '../../../contract/schemas/usage.ts'
import { ALLOWANCES, type Allowance } from '../admission/allowance.ts'

const METER_UNITS = 3600 // of each meter, in one unit of its allowance

/** What a plan includes in a period, in units of the allowance; null: without limit. */
export type Included = Record<Allowance, number | null>

export interface AllowanceUse {
  allowance: Allowance
  used_meter_units: number
  /** null: without limit. */
  included_meter_units: number | null
}

/** What is used of each allowance. Pure. */
export function allowancesUsed(included: Included, used: Units): AllowanceUse[] {
  return (Object.keys(ALLOWANCES) as Allowance[]).map((allowance) => {
    const units = included[allowance]
    const included_meter_units = units === null ? null : units * METER_UNITS
    return { allowance, used_meter_units: used[ALLOWANCES[allowance].meter], included_meter_units }
  })
}
