import { LIMITS } from '../../../contract/limits.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import { fail } from '../../lib/fail.ts'
import { takeFromBudget } from './store.ts'

const DAY_MS = 24 * 3600 * 1000

/**
 * Counts one created object against the organization's daily budget: limits on current objects do not bound rows, because deleted ones
 * remain. Locks an organization row, so a transaction calls this last.
 */
export async function takeOfDay(tx: ChangeTx, what: keyof typeof LIMITS.per_day, organization_id: string, now: Date): Promise<void> {
  const day_before = new Date(now.getTime() - DAY_MS)
  const began = await takeFromBudget(tx, `${what}:${organization_id}`, LIMITS.per_day[what], { day_before, now })
  if (began === null) return
  const retry_after_seconds = Math.max(1, Math.ceil((began.getTime() + DAY_MS - now.getTime()) / 1000))
  throw fail('rate_limited', null, 'The organization has made as many of these as it may in a day', { retry_after_seconds })
}
