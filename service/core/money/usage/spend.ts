import type { ReasonOf } from '../../../../contract/errors.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { METER_UNITS, type Allowance, type SpendCapView } from '../../../../contract/schemas/spend.ts'
import type { Units } from '../../../../contract/schemas/usage.ts'
import type { AllowanceState } from '../admission/allowance.ts'
import { allowancesUsed, isUsedUp, type Granted, type Included } from './allowances.ts'
import type { Period } from './period.ts'

export interface Prices extends Included {
  currency: string | null
  price_minor: number | null
  cpu_hour_minor: number | null
  ram_gib_hour_minor: number | null
}

export interface OveragePolicy {
  overage_enabled: boolean
  spend_cap_minor: number | null
  /** The last billing period in which overage was on. */
  enabled_in: Date | null
}

export interface SpendFacts {
  prices: Prices
  choice: OveragePolicy
  used: Units
  granted: Granted
  period: Period
  past_due: boolean
}

type Line = SpendCapView['lines'][number]

const WARNING_PERCENT = LIMITS.spend.warning_percent

export function hasOverage(prices: Prices): prices is Prices & { currency: string; price_minor: number } {
  const { currency, price_minor, cpu_hours, ram_gib_hours, cpu_hour_minor, ram_gib_hour_minor } = prices
  if (currency === null || price_minor === null || price_minor < LIMITS.spend.cap_minor_min) return false
  if (cpu_hours === null && ram_gib_hours === null) return false
  return (cpu_hours === null || cpu_hour_minor !== null) && (ram_gib_hours === null || ram_gib_hour_minor !== null)
}

export function linesOf(prices: Prices, used: Units, granted: Granted): Line[] {
  const rates: Record<Allowance, number | null> = { cpu_hours: prices.cpu_hour_minor, ram_gib_hours: prices.ram_gib_hour_minor }
  return allowancesUsed(prices, used, granted).flatMap(({ allowance, used_meter_units, included_meter_units }) => {
    const rate_minor = rates[allowance]
    if (included_meter_units === null || rate_minor === null) return []
    const over = Math.max(0, used_meter_units - included_meter_units)
    const billed_units = Math.floor(over / METER_UNITS)
    return [{ allowance, units_over: over / METER_UNITS, billed_units, rate_minor, amount_minor: billed_units * rate_minor }]
  })
}

export function chargesOf({ prices, choice, used, granted, period }: SpendFacts): { lines: Line[]; charges_minor: number } {
  const was_on = choice.overage_enabled || choice.enabled_in?.getTime() === period.starts_at.getTime()
  const lines = hasOverage(prices) && was_on ? linesOf(prices, used, granted) : []
  return { lines, charges_minor: lines.reduce((sum, { amount_minor }) => sum + amount_minor, 0) }
}

function effectiveCap({ prices, choice }: SpendFacts): number | null {
  return choice.spend_cap_minor === null ? null : Math.min(choice.spend_cap_minor, prices.price_minor ?? 0)
}

function isAnyUsedUp({ prices, used, granted }: SpendFacts): boolean {
  return allowancesUsed(prices, used, granted).some(isUsedUp)
}

/** The field `spend_cap` of App, "Usage and spend". */
export function spendCapOf(facts: SpendFacts, now: Date): SpendCapView {
  const { prices, choice } = facts
  if (!hasOverage(prices)) return UNAVAILABLE
  const { lines, charges_minor } = chargesOf(facts)
  const effective_cap_minor = effectiveCap(facts)
  return {
    state: stateOf(facts, charges_minor, effective_cap_minor),
    cap_minor: choice.spend_cap_minor,
    effective_cap_minor,
    max_cap_minor: prices.price_minor,
    charges_minor,
    remaining_minor: effective_cap_minor === null ? null : Math.max(0, effective_cap_minor - charges_minor),
    percent_of_cap: effective_cap_minor === null || effective_cap_minor === 0 ? null : percent(charges_minor, effective_cap_minor),
    lines,
    projected_reached_at: projectedReach(facts, effective_cap_minor, now)?.toISOString() ?? null,
    currency: prices.currency,
  }
}

function stateOf(facts: SpendFacts, charges: number, cap: number | null): SpendCapView['state'] {
  if (!facts.choice.overage_enabled || cap === null) return 'off'
  if (facts.past_due) return 'paused'
  if (charges >= cap) return 'reached'
  if (percent(charges, cap) >= WARNING_PERCENT) return 'warning'
  return isAnyUsedUp(facts) ? 'accruing' : 'within_allowance'
}

function percent(charges: number, cap: number): number {
  return Math.floor((charges * 1000) / cap) / 10
}

/** @returns null outside the period, or if overage is not charged. */
export function projectedReach(facts: SpendFacts, cap: number | null, now: Date): Date | null {
  const { choice, period, past_due } = facts
  const passed = now.getTime() - period.starts_at.getTime()
  if (cap === null || !choice.overage_enabled || past_due || passed <= 0) return null
  const chargesAt = (at: number) =>
    chargesOf({ ...facts, used: extrapolatedUsage(facts, now, new Date(period.starts_at.getTime() + at)) }).charges_minor
  const whole = period.ends_at.getTime() - period.starts_at.getTime()
  if (chargesAt(passed) >= cap) return now
  if (chargesAt(whole) < cap) return null
  let [below, reached] = [passed, whole]
  while (reached - below > SECOND_MS) {
    const middle = Math.floor((below + reached) / 2)
    if (chargesAt(middle) >= cap) reached = middle
    else below = middle
  }
  return new Date(period.starts_at.getTime() + reached)
}

const SECOND_MS = 1000

export function extrapolatedUsage({ used, period }: Pick<SpendFacts, 'used' | 'period'>, now: Date, at: Date): Units {
  const passed = Math.max(1, now.getTime() - period.starts_at.getTime())
  const factor = (at.getTime() - period.starts_at.getTime()) / passed
  return Object.fromEntries(Object.entries(used).map(([meter, units]) => [meter, Math.floor(units * factor)])) as Units
}

export const UNAVAILABLE: SpendCapView = {
  state: 'unavailable',
  cap_minor: null,
  effective_cap_minor: null,
  max_cap_minor: null,
  charges_minor: 0,
  remaining_minor: null,
  percent_of_cap: null,
  lines: [],
  projected_reached_at: null,
  currency: null,
}

export interface Exhausted {
  reason: ReasonOf<'allowance_exhausted'>
  state: AllowanceState
}

/** @returns why no more work may start (App, "Reasons" of 402 allowance_exhausted); null: more work may start. */
export function exhaustionOf(facts: SpendFacts): Exhausted | null {
  const { prices, choice, used, granted, period, past_due } = facts
  const exhausted = allowancesUsed(prices, used, granted)
    .filter(isUsedUp)
    .map(({ allowance, used_meter_units, included_meter_units }) => ({ allowance, used_meter_units, included_meter_units }))
  if (exhausted.length === 0) return null
  const of_cap = capState(facts)
  const state: AllowanceState = { exhausted, resets_at: period.ends_at.toISOString(), spend_cap: of_cap, judged: true }
  if (of_cap === null || !choice.overage_enabled) return { reason: 'allowance_used', state }
  if (past_due) return { reason: 'overage_paused', state }
  const reached = of_cap.effective_cap_minor === null || of_cap.charges_minor >= of_cap.effective_cap_minor
  return reached ? { reason: 'spend_cap_reached', state } : null
}

export function capState(facts: SpendFacts): AllowanceState['spend_cap'] {
  const { prices, choice } = facts
  if (!hasOverage(prices)) return null
  const { charges_minor } = chargesOf(facts)
  return { cap_minor: choice.spend_cap_minor, effective_cap_minor: effectiveCap(facts), charges_minor, currency: prices.currency }
}
