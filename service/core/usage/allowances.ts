import type { Units } from '../../../contract/schemas/usage.ts'
import { ALLOWANCES, type Allowance, type AllowanceState } from '../admission/allowance.ts'
import type { Period } from './period.ts'

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

/** What is used up, as `organizations.allowance` has it; null: nothing is. An allowance of nothing is used up from the start. Pure. */
export function judge(included: Included, used: Units, { ends_at }: Period): AllowanceState | null {
  const exhausted = allowancesUsed(included, used).flatMap(({ allowance, used_meter_units, included_meter_units }) =>
    included_meter_units !== null && used_meter_units >= included_meter_units
      ? [{ allowance, used_meter_units, included_meter_units }]
      : [],
  )
  return exhausted.length === 0 ? null : { exhausted, resets_at: ends_at.toISOString(), spend_cap: null, judged: true }
}
