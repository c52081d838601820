import type { Clock } from '../lib/clock.ts'
import { createBuckets } from './buckets.ts'

/** App, "Limits": an edge may answer 429 with these, before anything of the request is looked at. */
export const EDGE_REQUEST_ID = 'edge'
export const EDGE_RETRY_SECONDS = 60

/** A token bucket over all requests of one process. */
export interface Edge {
  /** @returns whether one more request may come in. */
  take(): boolean
}

/** As many at once as in a minute, and refilled evenly. */
export function createEdge(requests_per_minute: number, clock: Clock): Edge {
  const bucket = createBuckets({ tokens: requests_per_minute, seconds: 60, names_max: 1 }, clock)
  return { take: () => bucket.take('everybody') === 0 }
}
