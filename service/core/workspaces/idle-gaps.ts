import { LIMITS } from '../../../contract/limits.ts'

/**
 * What a workspace's own past says of its next gap between activity: a histogram of gaps, the older the lighter (decision 14).
 * Bucket i holds gaps from EDGES[i] up to EDGES[i + 1]; the last one all that are too long for any timeout. Shorter gaps than the
 * shortest timeout tell nothing and are not kept. The row's copy is kept by the trigger of migration 0005, by the same numbers.
 */
export type IdleGaps = readonly number[]

/** Weight that a gap keeps when the next one comes: the last fifty or so count. */
export const GAP_DECAY = 0.98
/** How much machine time a wake is worth. With nothing known, a timeout of the same length is never worse than twice the best. */
export const WAKE_COST_SECONDS = LIMITS.idle.adaptive_seconds_default
/** Fewer than that say nothing yet. */
export const GAPS_MIN = 6

const BUCKETS = 24
const RATIO = (LIMITS.idle.adaptive_seconds_max / LIMITS.idle.adaptive_seconds_min) ** (1 / BUCKETS)
/** Ends of the buckets, and the timeouts there are: 10 seconds to 4 hours, a third longer each. */
export const EDGES: readonly number[] = Array.from({ length: BUCKETS + 1 }, (_, i) => LIMITS.idle.adaptive_seconds_min * RATIO ** i)
/** The gap that stands for a bucket's. */
const MIDDLES = EDGES.map((edge) => edge * Math.sqrt(RATIO))

export function noteGap(gaps: IdleGaps | null, gap_seconds: number): IdleGaps | null {
  if (gap_seconds < LIMITS.idle.adaptive_seconds_min) return gaps
  const bucket = Math.min(BUCKETS, Math.floor(Math.log(gap_seconds / LIMITS.idle.adaptive_seconds_min) / Math.log(RATIO)))
  return EDGES.map((_, i) => (gaps?.[i] ?? 0) * GAP_DECAY + (i === bucket ? 1 : 0))
}

/**
 * The timeout that would have cost least over these gaps: a gap that it outlasts costs the machine for the gap, a longer one the
 * machine until the timeout, and a wake. Of equal ones the shortest. null: too little is known.
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

/** Of the timeout that ends where bucket `timeout` begins. */
function costOf(gaps: IdleGaps, timeout: number, timeout_seconds: number): number {
  return gaps.reduce((cost, count, i) => cost + count * (i < timeout ? (MIDDLES[i] ?? 0) : timeout_seconds + WAKE_COST_SECONDS), 0)
}

function weight(gaps: IdleGaps): number {
  return gaps.reduce((sum, count) => sum + count, 0)
}

/** What so many gaps weigh together when the last has just been noted; a little less, since the row keeps single precision. */
function weightOf(count: number): number {
  return (1 - GAP_DECAY ** count) / (1 - GAP_DECAY) - 0.001
}
