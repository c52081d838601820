import { LIMITS } from '../../../contract/limits.ts'
import { createBuckets, type Buckets } from '../../http/buckets.ts'
import { sourceOf } from '../../http/source.ts'
import type { Clock } from '../../lib/clock.ts'
import { fail } from '../../lib/fail.ts'

/**
 * Bounds how often passwords are guessed and mails are asked for: of an account, from a network address, and by everybody together. An
 * address without an account is bounded as one with: nobody learns which it is. Each process counts for itself.
 */
export interface SignInBounds {
  /** Refuses, or does the work; only what turns out wrong (null) counts. */
  guess<Found>(email: string, address: string, work: () => Promise<Found | null>): Promise<Found | null>
  /** Refuses a mail too many. */
  mail(email: string, address: string): void
}

export interface SignInLimits {
  wrong_passwords_per_account_and_hour: number
  wrong_passwords_per_source_and_minute: number
  wrong_passwords_per_minute: number
  mails_per_address_and_hour: number
  mails_per_source_and_hour: number
}

export function createSignInBounds(clock: Clock, limits: SignInLimits = LIMITS.sign_in): SignInBounds {
  const buckets = (tokens: number, seconds: number) =>
    createBuckets({ tokens, seconds, names_max: LIMITS.caller.addresses_counted_max }, clock)
  const accounts = buckets(limits.wrong_passwords_per_account_and_hour, 3600)
  const sources = buckets(limits.wrong_passwords_per_source_and_minute, 60)
  const everybody = buckets(limits.wrong_passwords_per_minute, 60)
  const mailed = buckets(limits.mails_per_address_and_hour, 3600)
  const mailers = buckets(limits.mails_per_source_and_hour, 3600)
  return {
    async guess(email, address, work) {
      const taken = take([
        [sources, sourceOf(address)],
        [accounts, email],
        [everybody, 'all'],
      ])
      let is_wrong = false
      try {
        const found = await work()
        is_wrong = found === null
        return found
      } finally {
        if (!is_wrong) taken.giveBack()
      }
    },
    mail(email, address) {
      take([
        [mailers, sourceOf(address)],
        [mailed, email],
      ])
    },
  }
}

/** One of each, or none. */
function take(wanted: [Buckets, string][]): { giveBack(): void } {
  const taken: [Buckets, string][] = []
  const giveBack = () => taken.forEach(([buckets, name]) => buckets.giveBack(name))
  for (const [buckets, name] of wanted) {
    const retry_after_seconds = buckets.take(name)
    if (retry_after_seconds > 0) {
      giveBack()
      throw fail('rate_limited', null, 'Too many tries', { retry_after_seconds })
    }
    taken.push([buckets, name])
  }
  return { giveBack }
}
