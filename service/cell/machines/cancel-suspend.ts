import { cancelsSuspend } from '../../core/workspaces/idle.ts'
import type { Db } from '../../db/database.ts'
import { dropSuspendRequest, type SuspendAsked } from './idle-store.ts'

/**
 * Cancels a requested suspend (App, "Suspend when idle"). A failed write is ignored, so that calls are served without the database: the
 * idle clock later removes void requests.
 */
export async function cancelSuspend(db: Db, asked: SuspendAsked, tool_call_at: Date | null): Promise<void> {
  if (asked.suspend_requested_at === null || !cancelsSuspend(tool_call_at, asked.suspend_requested_at)) return
  await dropSuspendRequest(db, asked).catch(() => undefined)
}
