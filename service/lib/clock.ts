/** The one clock. Everything that needs the time is given one, so that a test can move it. */
export interface Clock {
  /** Wall-clock time. */
  now(): Date
  /** Milliseconds that only grow, for timeouts and ages. */
  monotonic_ms(): number
}

export const systemClock: Clock = {
  now: () => new Date(),
  monotonic_ms: () => performance.now(),
}
