import { LIMITS } from '../../../../contract/limits.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { fail } from '../../../lib/fail.ts'
import { secondsLeft } from '../../../lib/window.ts'
import { takeFromBudget } from './store.ts'

const DAY_SECONDS = 24 * 3600

/** Limits on existing objects do not bound rows, because deleted objects' rows remain. Call this last: it locks an organization row. */
export async function takeOfDay(tx: ChangeTx, what: keyof typeof LIMITS.per_day, organization_id: string, now: Date): Promise<void> {
  const day_before = new Date(now.getTime() - DAY_SECONDS * 1000)
  const began = await takeFromBudget(tx, `${what}:${organization_id}`, LIMITS.per_day[what], { day_before, now })
  if (began === null) return
  const retry_after_seconds = secondsLeft(began, DAY_SECONDS, now)
  throw fail('rate_limited', null, 'The organization has made as many of these as it may in a day', { retry_after_seconds })
}
