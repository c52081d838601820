import type { Clock } from '../lib/clock.ts'
import { createBuckets } from './buckets.ts'

/** An edge limits all requests together: it answers 429 with these values, before it reads the request (App, "Limits"). */
export const EDGE_REQUEST_ID = 'edge'
export const EDGE_RETRY_SECONDS = 60

export interface Edge {
  take(): boolean
}

/** The largest burst is the limit of one minute, which is refilled evenly. */
export function createEdge(requests_per_minute: number, clock: Clock): Edge {
  const bucket = createBuckets({ tokens: requests_per_minute, seconds: 60, names_max: 1 }, clock)
  return { take: () => bucket.take('everybody') === 0 }
}
