import { LIMITS } from '../../../contract/limits.ts'
import { createBuckets } from '../../http/buckets.ts'
import type { Call } from '../../http/call.ts'
import type { Clock } from '../../lib/clock.ts'
import { fail } from '../../lib/fail.ts'
import { tenantOf } from './turns.ts'

const DAY_SECONDS = 24 * 3600

/** Limits changes, because each writes rows: audit records remain for 400 days, idempotency outcomes for one. */
export type ChangeRate = (call: Pick<Call, 'who' | 'route'>) => void

/** Deletions are never refused. Their number is bounded by the number of creations. */
export function createChangeRate(changes_per_day: number, clock: Clock): ChangeRate {
  const buckets = createBuckets({ tokens: changes_per_day, seconds: DAY_SECONDS, names_max: LIMITS.caller.callers_counted_max }, clock)
  return ({ who, route }) => {
    if (route.method === 'DELETE') return
    const retry_after_seconds = buckets.take(tenantOf(who))
    if (retry_after_seconds > 0) throw fail('rate_limited', null, 'You make too many changes in a day', { retry_after_seconds })
  }
}
