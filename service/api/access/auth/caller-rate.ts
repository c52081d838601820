import { LIMITS } from '../../../../contract/limits.ts'
import { createBuckets } from '../../../http/buckets.ts'
import type { Principal } from '../../../http/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { fail } from '../../../lib/fail.ts'

export type CallerRate = (who: Principal) => void

/** Each process counts only the calls that it receives. */
export function createCallerRate(requests_per_minute: number, clock: Clock): CallerRate {
  const buckets = createBuckets({ tokens: requests_per_minute, seconds: 60, names_max: LIMITS.caller.callers_counted_max }, clock)
  return ({ id }) => {
    const retry_after_seconds = buckets.take(id)
    if (retry_after_seconds > 0) throw fail('rate_limited', null, 'You send too many requests', { retry_after_seconds })
  }
}
