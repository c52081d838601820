import { LIMITS } from '../../../contract/limits.ts'
import type { Db } from '../../db/database.ts'
import { countLate, findDifferences, type Difference } from './reconcile-store.ts'

const HOUR_MS = 3600_000
const DAY_MS = 24 * HOUR_MS
/** Closing comes every ten minutes; a cell that was away for a day has much else to do. */
const LATE_HOURS = LIMITS.usage.final_after_hours + 24

export interface Reconciled {
  differences: Difference[]
  /** Samples that should be in the ledger, and are not. */
  late: number
}

/** Compares counters, samples, ledger and its sums from a moment on. */
export async function reconcile(db: Db, from: Date, now: Date): Promise<Reconciled> {
  // A day less than counters are kept: one that is about to go is not looked for.
  const counters_since = new Date(now.getTime() - (LIMITS.usage.counter_days - 1) * DAY_MS)
  return {
    differences: await findDifferences(db, { from, to: now }, counters_since),
    late: await countLate(db, new Date(now.getTime() - LATE_HOURS * HOUR_MS)),
  }
}
