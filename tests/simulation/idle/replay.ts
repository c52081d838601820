import { learnedSeconds, WAKE_COST_SECONDS, type IdleGaps } from '../../../service/core/workspaces/idle-gaps.ts'
import { LIMITS } from '../../../contract/limits.ts'
import { noteGap } from '../../support/idle-gaps.ts'

export interface Cost {
  held_seconds: number
  wakes: number
}

export const FIXED_MINUTES = [1, 5, 15, 60]

export function replay(gaps: readonly number[], timeoutOf: (seen: IdleGaps | null) => number): Cost {
  let seen: IdleGaps | null = null
  const cost: Cost = { held_seconds: 0, wakes: 0 }
  for (const gap of gaps) {
    const timeout = timeoutOf(seen)
    cost.held_seconds += Math.min(gap, timeout)
    if (gap > timeout) cost.wakes += 1
    seen = noteGap(seen, gap)
  }
  return cost
}

export const adaptive = (seen: IdleGaps | null): number => learnedSeconds(seen) ?? LIMITS.idle.adaptive_seconds_default

export function total({ held_seconds, wakes }: Cost): number {
  return held_seconds + WAKE_COST_SECONDS * wakes
}

/** Cost of a rule that knows each gap in advance, which no rule can beat. */
export function clairvoyant(gaps: readonly number[]): number {
  const least = LIMITS.idle.adaptive_seconds_min
  return gaps.reduce((sum, gap) => sum + Math.min(gap, least + WAKE_COST_SECONDS), 0)
}
