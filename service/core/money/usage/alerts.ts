import type { AlertSubject } from '../../../../contract/schemas/spend.ts'
import { allowancesUsed } from './allowances.ts'
import { capState, type SpendFacts } from './spend.ts'

export interface Reached {
  subject: AlertSubject
  threshold_percent: number
}

/** A limit of 0 has no thresholds. */
export function reachedThresholds(facts: SpendFacts, thresholds_percent: readonly number[]): Reached[] {
  const { prices, used, granted, choice } = facts
  const cap = choice.overage_enabled ? capState(facts) : null
  const parts: [AlertSubject, number, number | null][] = [
    ...allowancesUsed(prices, used, granted).map(
      ({ allowance, used_meter_units, included_meter_units }): [AlertSubject, number, number | null] => [
        allowance,
        used_meter_units,
        included_meter_units,
      ],
    ),
    ['spend_cap', cap?.charges_minor ?? 0, cap?.effective_cap_minor ?? null],
  ]
  return parts.flatMap(([subject, part, whole]) =>
    whole === null || whole === 0
      ? []
      : thresholds_percent.filter((percent) => part * 100 >= whole * percent).map((threshold_percent) => ({ subject, threshold_percent })),
  )
}
