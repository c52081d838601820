import Type, { type Static } from 'typebox'
import { Value } from 'typebox/value'
import type { DetailsOf } from '../../../../contract/details.ts'
import { METER_UNITS, type Allowance } from '../../../../contract/schemas/spend.ts'

/** Allowances with their meters (App, "Reasons" of 402 allowance_exhausted). */
export const ALLOWANCES = {
  cpu_hours: { meter: 'cpu_seconds', unit: 'hours' },
  ram_gib_hours: { meter: 'memory_gib_seconds', unit: 'gib_hours' },
} as const satisfies Record<Allowance, object>

const OrNull = Type.Union([Type.Integer(), Type.Null()])
const SpendCap = Type.Object({
  cap_minor: OrNull,
  effective_cap_minor: OrNull,
  charges_minor: Type.Integer(),
  currency: Type.String(),
})

/** Content of `organizations.allowance`. */
export const AllowanceState = Type.Object({
  exhausted: Type.Array(
    Type.Object({
      allowance: Type.Union([Type.Literal('cpu_hours'), Type.Literal('ram_gib_hours')]),
      used_meter_units: Type.Number(),
      included_meter_units: Type.Number(),
    }),
    { minItems: 1 },
  ),
  resets_at: Type.Union([Type.String(), Type.Null()]),
  spend_cap: Type.Union([SpendCap, Type.Null()]),
  /** True: the meters set and clear this state. Absent: an operator set it, and only an operator changes it. */
  judged: Type.Optional(Type.Literal(true)),
})
export type AllowanceState = Static<typeof AllowanceState>

const NOTHING: AllowanceState['exhausted'][number] = { allowance: 'cpu_hours', used_meter_units: 0, included_meter_units: 0 }
/** Used if the row cannot be parsed. */
const UNMETERED: AllowanceState = {
  exhausted: [NOTHING],
  resets_at: null,
  spend_cap: null,
}

export function allowanceDetails(state: object | null, plan: string): DetailsOf<'allowance_exhausted', null> {
  const { exhausted, resets_at, spend_cap } = Value.Check(AllowanceState, state) ? state : UNMETERED
  const each = exhausted.map(usedUp)
  const [first = usedUp(NOTHING)] = each
  return { ...first, exhausted: each, resets_at, plan, spend_cap }
}

function usedUp({ allowance, used_meter_units, included_meter_units }: AllowanceState['exhausted'][number]) {
  const { meter, unit } = ALLOWANCES[allowance]
  const [used, included] = [used_meter_units / METER_UNITS, included_meter_units / METER_UNITS]
  return { allowance, meter, unit, used, included, used_meter_units, included_meter_units }
}
