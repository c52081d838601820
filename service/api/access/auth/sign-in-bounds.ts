import { LIMITS } from '../../../../contract/limits.ts'
import { createBuckets, type Buckets } from '../../../http/buckets.ts'
import { sourceOf } from '../../../http/source.ts'
import type { Clock } from '../../../lib/clock.ts'
import { fail } from '../../../lib/fail.ts'

/** Unknown addresses have the same limits as known ones, so callers cannot tell them apart. Each process counts only its own calls. */
export interface SignInLimiter {
  /** Only failures (null) use up the limit. */
  guess<Found>(email: string, address: string, work: () => Promise<Found | null>): Promise<Found | null>
  /** Guesses by other callers do not limit a signed-in person. */
  guessInSession<Found>(session_id: string, work: () => Promise<Found | null>): Promise<Found | null>
  mail(email: string, address: string): void
}

export interface SignInLimits {
  wrong_passwords_per_account_and_hour: number
  wrong_passwords_per_source_and_minute: number
  wrong_passwords_per_minute: number
  wrong_passwords_per_session_and_hour: number
  mails_per_address_and_hour: number
  mails_per_source_and_hour: number
}

export function createSignInLimiter(clock: Clock, limits: SignInLimits = LIMITS.sign_in): SignInLimiter {
  const buckets = (tokens: number, seconds: number) =>
    createBuckets({ tokens, seconds, names_max: LIMITS.caller.addresses_counted_max }, clock)
  const accounts = buckets(limits.wrong_passwords_per_account_and_hour, 3600)
  const sources = buckets(limits.wrong_passwords_per_source_and_minute, 60)
  const everybody = buckets(limits.wrong_passwords_per_minute, 60)
  const sessions = buckets(limits.wrong_passwords_per_session_and_hour, 3600)
  const known = createRecentSignIns(clock)
  const mailed = buckets(limits.mails_per_address_and_hour, 3600)
  const mailers = buckets(limits.mails_per_source_and_hour, 3600)
  return {
    async guess(email, address, work) {
      const source = sourceOf(address)
      const is_known = known.has(`account ${email}`) || known.has(`source ${source}`)
      const found = await counted(
        [[sources, source], [accounts, email], ...(is_known ? [] : ([[everybody, 'all']] as [Buckets, string][]))],
        work,
      )
      if (found !== null) for (const name of [`account ${email}`, `source ${source}`]) known.add(name)
      return found
    },
    guessInSession: (session_id, work) => counted([[sessions, session_id]], work),
    mail(email, address) {
      take([
        [mailers, sourceOf(address)],
        [mailed, email],
      ])
    },
  }
}

async function counted<Found>(wanted: [Buckets, string][], work: () => Promise<Found | null>): Promise<Found | null> {
  const taken = take(wanted)
  let is_wrong = false
  try {
    const found = await work()
    is_wrong = found === null
    return found
  } finally {
    if (!is_wrong) taken.giveBack()
  }
}

/** The size is bounded: the oldest entry is removed first. */
function createRecentSignIns(clock: Clock): { has(name: string): boolean; add(name: string): void } {
  const known_ms = LIMITS.sign_in.known_days * 24 * 3600 * 1000
  const names = new Map<string, number>()
  return {
    has: (name) => clock.monotonic_ms() - (names.get(name) ?? -Infinity) < known_ms,
    add(name) {
      names.delete(name)
      names.set(name, clock.monotonic_ms())
      if (names.size > LIMITS.caller.addresses_counted_max) names.delete(names.keys().next().value ?? '')
    },
  }
}

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
