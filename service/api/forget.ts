import { dropEvents } from '../core/changes/chain-store.ts'
import { forgetFeedback } from '../core/feedback/store.ts'
import type { Db } from '../db/database.ts'
import { forgetOutcomes } from './idempotency/store.ts'

/** Longer than a year, so that a year can be compared with the one before. */
export const AUDIT_DAYS = 400
const DAY_MS = 24 * 3600 * 1000
const TURNS_MAX = 1000

/** Removes what is kept for a time only: outcomes for repeats, and records of changes. @returns how many went. */
export async function forgetOld(db: Db, now: Date): Promise<{ outcomes: number; audit_events: number }> {
  const outcomes = await forgetOutcomes(db, now)
  const created_before = new Date(now.getTime() - AUDIT_DAYS * DAY_MS)
  let audit_events = 0
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    const dropped = await dropEvents(db, created_before)
    audit_events += dropped
    if (dropped === 0) break
  }
  await forgetFeedback(db, created_before)
  return { outcomes, audit_events }
}
