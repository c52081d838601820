import { LIMITS } from '../../../contract/limits.ts'

/**
 * A histogram of the gaps between a workspace's activity, in which older gaps weigh less (decision 14). Bucket i holds gaps from EDGES[i]
 * up to EDGES[i + 1]; the last holds all longer ones. Gaps below the shortest timeout are ignored. The trigger of migration 0005 updates
 * the row with the same numbers.
 */
export type IdleGaps = readonly number[]

/** Factor on the weight of earlier gaps when a new one arrives: about the last fifty count. */
export const GAP_DECAY = 0.98
/** Machine time that a wake costs. Without data, a timeout of the same length never costs more than twice the optimum. */
export const WAKE_COST_SECONDS = LIMITS.idle.adaptive_seconds_default
/** Minimum number of gaps from which a timeout is learned. */
export const GAPS_MIN = 6

const BUCKETS = 24
const RATIO = (LIMITS.idle.adaptive_seconds_max / LIMITS.idle.adaptive_seconds_min) ** (1 / BUCKETS)
/** Bucket edges, which are also the possible timeouts: 10 seconds to 4 hours, each a third longer. */
export const EDGES: readonly number[] = Array.from({ length: BUCKETS + 1 }, (_, i) => LIMITS.idle.adaptive_seconds_min * RATIO ** i)
/** Representative gap of each bucket, in seconds. */
const MIDDLES = EDGES.map((edge) => edge * Math.sqrt(RATIO))

export function noteGap(gaps: IdleGaps | null, gap_seconds: number): IdleGaps | null {
  if (gap_seconds < LIMITS.idle.adaptive_seconds_min) return gaps
  const bucket = Math.min(BUCKETS, Math.floor(Math.log(gap_seconds / LIMITS.idle.adaptive_seconds_min) / Math.log(RATIO)))
  return EDGES.map((_, i) => (gaps?.[i] ?? 0) * GAP_DECAY + (i === bucket ? 1 : 0))
}

/**
 * Returns the timeout with the lowest cost over these gaps; of equal ones the shortest. A shorter gap costs its own length, a longer one
 * the timeout plus a wake. null: too few gaps.
 */
export function learnedSeconds(gaps: IdleGaps | null): number | null {
  if (gaps === null || weight(gaps) < weightOf(GAPS_MIN)) return null
  let best = { cost: Number.POSITIVE_INFINITY, edge: 0 }
  for (const [i, edge] of EDGES.entries()) {
    const cost = costOf(gaps, i, edge)
    if (cost < best.cost) best = { cost, edge }
  }
  return Math.round(best.edge)
}

/** Returns the cost of the timeout at the lower edge of bucket `timeout`. */
function costOf(gaps: IdleGaps, timeout: number, timeout_seconds: number): number {
  return gaps.reduce((cost, count, i) => cost + count * (i < timeout ? (MIDDLES[i] ?? 0) : timeout_seconds + WAKE_COST_SECONDS), 0)
}

function weight(gaps: IdleGaps): number {
  return gaps.reduce((sum, count) => sum + count, 0)
}

/** Returns the total weight of `count` gaps, minus a tolerance: the row stores single precision. */
function weightOf(count: number): number {
  return (1 - GAP_DECAY ** count) / (1 - GAP_DECAY) - 0.001
}
