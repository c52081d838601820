import { LIMITS } from '../../../../contract/limits.ts'
import { createBuckets } from '../../../http/buckets.ts'
import { sourceOf } from '../../../http/source.ts'
import type { Clock } from '../../../lib/clock.ts'
import { fail } from '../../../lib/fail.ts'

/** Limits failed look-ups per address: each costs a database statement. */
export interface AuthFailureLimiter {
  /**
   * A credential that was valid before is never limited, so guesses from a shared address, such as a proxy, lock out no other caller.
   * @param digest keeps credentials out of memory. @param find returns null for an unknown credential.
   */
  lookUp<Found>(address: string, digest: string, find: () => Promise<Found | null>): Promise<Found | null>
}

export function createAuthFailureLimiter(per_minute: number, clock: Clock): AuthFailureLimiter {
  const buckets = createBuckets({ tokens: per_minute, seconds: 60, names_max: LIMITS.caller.addresses_counted_max }, clock)
  const good = new Set<string>() // digests, ordered by last use, oldest first
  return {
    async lookUp(address, digest, find) {
      const source = sourceOf(address)
      const was_good = good.has(digest)
      // The token is removed before the result is known. Otherwise concurrent guesses would exceed the limit.
      const retry_after_seconds = was_good ? 0 : buckets.take(source)
      if (retry_after_seconds > 0) throw fail('rate_limited', null, 'Too many credentials are not valid', { retry_after_seconds })
      let is_wrong = false
      try {
        const found = await find()
        is_wrong = found === null
        good.delete(digest)
        if (!is_wrong) remember(good, digest)
        return found
      } finally {
        if (!was_good && !is_wrong) buckets.giveBack(source) // also if the look-up failed with an error
      }
    },
  }
}

function remember(good: Set<string>, digest: string): void {
  good.add(digest)
  if (good.size <= LIMITS.caller.credentials_known_max) return
  const [oldest] = good
  if (oldest !== undefined) good.delete(oldest)
}
