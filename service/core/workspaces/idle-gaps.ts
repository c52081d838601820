import { LIMITS } from '../../../contract/limits.ts'

/**
 * A histogram of the pauses between a workspace's activity, in which older pauses weigh less (decision 14). Bucket i begins at EDGES[i].
 * Only the trigger of migration 0005 writes the histogram. The trigger cannot import these numbers, so idle-clock.test.ts compares both.
 */
export type IdleGaps = readonly number[]

/** Older gaps weigh less: about the last fifty gaps count. */
export const GAP_DECAY = 0.98
/** Machine time that a wake costs. Without data the timeout has the same length, and never costs more than twice the optimum. */
export const WAKE_COST_SECONDS = LIMITS.idle.adaptive_seconds_default
export const GAPS_MIN = 6

const BUCKETS = 24
const RATIO = (LIMITS.idle.adaptive_seconds_max / LIMITS.idle.adaptive_seconds_min) ** (1 / BUCKETS)
/** These edges are also the possible timeouts: 10 seconds to 4 hours. */
export const EDGES: readonly number[] = Array.from({ length: BUCKETS + 1 }, (_, i) => LIMITS.idle.adaptive_seconds_min * RATIO ** i)
const MIDDLES = EDGES.map((edge) => edge * Math.sqrt(RATIO))

/** The timeout with the lowest cost; null: too few gaps. A gap below the timeout costs its length, a longer one the timeout plus a wake. */
export function learnedSeconds(gaps: IdleGaps | null): number | null {
  if (gaps === null || weight(gaps) < weightOf(GAPS_MIN)) return null
  let best = { cost: Number.POSITIVE_INFINITY, edge: 0 }
  for (const [i, edge] of EDGES.entries()) {
    const cost = costOf(gaps, i, edge)
    if (cost < best.cost) best = { cost, edge }
  }
  return Math.round(best.edge)
}

function costOf(gaps: IdleGaps, timeout: number, timeout_seconds: number): number {
  return gaps.reduce((cost, count, i) => cost + count * (i < timeout ? (MIDDLES[i] ?? 0) : timeout_seconds + WAKE_COST_SECONDS), 0)
}

function weight(gaps: IdleGaps): number {
  return gaps.reduce((sum, count) => sum + count, 0)
}

/** Weight of so many gaps, minus a tolerance, because the row has single precision. */
function weightOf(count: number): number {
  return (1 - GAP_DECAY ** count) / (1 - GAP_DECAY) - 0.001
}
