import { LIMITS } from '../../../../contract/limits.ts'
import type { Db } from '../../../db/database.ts'
import { countLate, findDifferences, type Difference } from './reconcile-store.ts'

const HOUR_MS = 3600_000
const DAY_MS = 24 * HOUR_MS
/** An entry is late a day after it was due, because a cell may be down for a day. */
const LATE_HOURS = LIMITS.usage.final_after_hours + 24

export interface Reconciled {
  differences: Difference[]
  late: number
}

export async function reconcile(db: Db, from: Date, now: Date): Promise<Reconciled> {
  // Counters that are about to expire are not compared.
  const counters_since = new Date(now.getTime() - (LIMITS.usage.counter_days - 1) * DAY_MS)
  return {
    differences: await findDifferences(db, { from, to: now }, counters_since),
    late: await countLate(db, new Date(now.getTime() - LATE_HOURS * HOUR_MS)),
  }
}
