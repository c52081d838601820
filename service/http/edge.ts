import type { Clock } from '../lib/clock.ts'

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
  let tokens = requests_per_minute
  let filled_ms = clock.monotonic_ms()
  return {
    take() {
      const now_ms = clock.monotonic_ms()
      tokens = Math.min(requests_per_minute, tokens + ((now_ms - filled_ms) / 60_000) * requests_per_minute)
      filled_ms = now_ms
      if (tokens < 1) return false
      tokens -= 1
      return true
    },
  }
}
