import { dropEvents } from '../core/changes/chain-store.ts'
import { forgetFeedback } from '../core/people/feedback/store.ts'
import type { Db } from '../db/database.ts'
import { forgetSessions } from '../core/people/sessions-store.ts'
import { forgetOutcomes } from './calls/idempotency/store.ts'
import { forgetInvitations } from './access/invitations/store.ts'
import { forgetBudgets } from './workspaces/tool-tokens/store.ts'

/** More than a year, so that audit records can be compared with those of the year before. */
export const AUDIT_DAYS = 400
const DAY_MS = 24 * 3600 * 1000
const TURNS_MAX = 1000

/** Longer than any token that was issued to a session is valid. */
const SESSION_DAYS = 30
const BUDGET_DAYS = 1

export async function deleteExpired(db: Db, now: Date): Promise<{ outcomes: number; audit_events: number }> {
  const daysAgo = (days: number) => new Date(now.getTime() - days * DAY_MS)
  const outcomes = await forgetOutcomes(db, now)
  const created_before = daysAgo(AUDIT_DAYS)
  let audit_events = 0
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    const dropped = await dropEvents(db, created_before)
    audit_events += dropped
    if (dropped === 0) break
  }
  await forgetFeedback(db, created_before)
  await forgetInvitations(db, created_before)
  await forgetSessions(db, daysAgo(SESSION_DAYS))
  await forgetBudgets(db, daysAgo(BUDGET_DAYS))
  return { outcomes, audit_events }
}
