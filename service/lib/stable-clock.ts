import type { Logger } from 'pino'
import type { Clock } from './clock.ts'

/** Largest allowed change of the difference between wall clock and monotonic clock. */
const APART_MS = 3600_000
/** After this time a changed clock is trusted, so that a computer that stood still removes old data again without a restart. */
const BELIEVED_MS = 24 * 3600_000

/**
 * @returns a function that is false while the wall clock has jumped against the monotonic one.
 * A clock set forward by days for some minutes must not delete data or end a month, since neither can be undone.
 */
export function watchClock(clock: Clock): () => boolean {
  const offset = () => clock.now().getTime() - clock.monotonic_ms()
  let believed = offset()
  let set: { offset: number; since_ms: number } | null = null
  return () => {
    const now = offset()
    if (Math.abs(now - believed) <= APART_MS) {
      set = null
      return true
    }
    if (set === null || Math.abs(now - set.offset) > APART_MS) set = { offset: now, since_ms: clock.monotonic_ms() }
    if (clock.monotonic_ms() - set.since_ms < BELIEVED_MS) return false
    believed = now
    set = null
    return true
  }
}

/** Wraps periodic work, which is skipped while the clock cannot be trusted. */
export function whileClockStable(clock: Clock, log: Logger, what: string, work: () => Promise<void>): () => Promise<void> {
  const isSteady = watchClock(clock)
  let is_told = false
  return async () => {
    if (isSteady()) {
      is_told = false
      return work()
    }
    if (!is_told) log.warn({ what }, 'the clock was set by more than an hour: removals wait until it is set back, or for a day')
    is_told = true
  }
}
