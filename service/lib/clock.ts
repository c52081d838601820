/** Source of time that a test can replace. */
export interface Clock {
  now(): Date
  /** Monotonic, for timeouts and ages. */
  monotonic_ms(): number
}

export const systemClock: Clock = {
  now: () => new Date(),
  monotonic_ms: () => performance.now(),
}
