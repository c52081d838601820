import type { idleGet } from '../../../../contract/routes/cell/idle.ts'
import { idleRule, nextEligibleAt, pendingSuspend } from '../../../core/workspaces/idle.ts'
import { fail } from '../../../lib/fail.ts'
import type { GatewayHandler } from '../handler.ts'
import { readIdleFacts } from './store.ts'

/** Activity of the last few seconds may not be in the row yet. */
export const getIdle: GatewayHandler<typeof idleGet> = async (call, { db }, ticket) => {
  const facts = await readIdleFacts(db, ticket.entry.id)
  if (facts === null) throw fail('not_found', null, 'There is no such workspace')
  const { active_at, tool_call_at, busy_until, keepalive_until } = facts
  const kept = [busy_until, keepalive_until].some((until) => until !== null && until > call.now)
  return {
    status: 200,
    body: {
      ...idleRule(facts),
      recent_activity: { active_at, tool_call_at, busy_until, keepalive_until },
      idle_since: kept ? null : active_at,
      suspend_request: pendingSuspend(facts),
      suspend_at: nextEligibleAt(facts),
    },
  }
}
