import { LIMITS } from '../../../contract/limits.ts'
import { createBuckets } from '../../http/buckets.ts'
import { sourceOf } from '../../http/source.ts'
import type { Clock } from '../../lib/clock.ts'
import { fail } from '../../lib/fail.ts'

/** Bounds how many credentials that are none an address may have looked up: each costs the database a statement. */
export interface Guesses {
  /**
   * Looks a credential up. One that was good before is always looked up, so that nobody who shares an address with a guesser (all do
   * behind a proxy) is kept out.
   * @param digest of the credential: what is kept in memory is no credential.
   * @param find null: there is no such credential.
   */
  look<Found>(address: string, digest: string, find: () => Promise<Found | null>): Promise<Found | null>
}

/** As many at once as in a minute, and refilled evenly. */
export function createGuesses(per_minute: number, clock: Clock): Guesses {
  const buckets = createBuckets({ tokens: per_minute, seconds: 60, names_max: LIMITS.caller.addresses_counted_max }, clock)
  const good = new Set<string>() // in order of use, the longest unused first
  return {
    async look(address, digest, find) {
      const source = sourceOf(address)
      const was_good = good.has(digest)
      // Taken before it is known to be wrong: of many at once each would else find room.
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
        if (!was_good && !is_wrong) buckets.giveBack(source) // also when the database could not be asked
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
