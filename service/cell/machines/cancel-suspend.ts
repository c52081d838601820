import { cancelsSuspend } from '../../core/workspaces/idle.ts'
import type { Db } from '../../db/database.ts'
import { dropSuspendRequest, type SuspendAsked } from './idle-store.ts'

/**
 * App, "Suspend when idle". Never fails: a call is served without the database too. The request is void by the time of the call, and the
 * idle clock drops it later.
 */
export async function cancelSuspend(db: Db, asked: SuspendAsked, tool_call_at: Date | null): Promise<void> {
  if (asked.suspend_requested_at === null || !cancelsSuspend(tool_call_at, asked.suspend_requested_at)) return
  await dropSuspendRequest(db, asked).catch(() => undefined)
}
