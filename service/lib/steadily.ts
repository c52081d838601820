import type { Logger } from 'pino'
import type { Clock } from './clock.ts'

/** How far the wall clock may go from the monotonic one. */
const APART_MS = 3600_000
/** A clock that was set and stays so for this long is believed. So a computer that stood still deletes again after a day, without a restart. */
const BELIEVED_MS = 24 * 3600_000

/**
 * Whether the wall clock has gone with the monotonic one since this was made. A clock that is set forward by days for some minutes must not
 * delete what is to be kept for days, nor end a month: neither can be taken back.
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

/** @returns the work, which is left out while the clock is not to be believed. */
export function steadily(clock: Clock, log: Logger, what: string, work: () => Promise<void>): () => Promise<void> {
  const isSteady = watchClock(clock)
  let is_told = false
  return async () => {
    if (isSteady()) {
      is_told = false
      return work()
    }
    if (!is_told) log.warn({ what }, 'the clock was set by more than an hour: this waits until it is set back, or for a day')
    is_told = true
  }
}
