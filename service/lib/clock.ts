/** A source of time that tests can replace. */
export interface Clock {
  now(): Date
  /** A monotonic clock, for timeouts and ages. */
  monotonic_ms(): number
}

export const systemClock: Clock = {
  now: () => new Date(),
  monotonic_ms: () => performance.now(),
}
