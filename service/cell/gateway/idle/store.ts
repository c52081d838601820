import { sql } from 'kysely'
import type { IdleFacts } from '../../../core/workspaces/idle.ts'
import type { Db } from '../../../db/database.ts'

/** null: no such workspace. */
export async function readIdleFacts(db: Db, workspace_id: string): Promise<IdleFacts | null> {
  const row = await db
    .selectFrom('workspaces as w')
    .innerJoin('template_versions as v', 'v.id', 'w.template_version_id')
    .select(['w.lifetime', 'w.idle_policy', 'w.active_at', 'w.tool_call_at', 'w.busy_until', 'w.keepalive_until'])
    .select(['w.suspend_requested_at', 'w.suspend_after_seconds', 'w.suspend_not_before', 'v.settings'])
    .where('w.id', '=', workspace_id)
    .executeTakeFirst()
  if (row === undefined) return null
  const { settings, ...facts } = row
  const defaults = 'defaults' in settings && typeof settings.defaults === 'object' ? (settings.defaults ?? {}) : {}
  return { ...facts, template_defaults: defaults }
}

/** The later of two keepalives holds; `ends` says that this one ends whatever was asked before. */
export async function writeKeepalive(db: Db, workspace_id: string, until: Date, ends: boolean): Promise<Date> {
  const row = await db
    .updateTable('workspaces')
    .set({ keepalive_until: ends ? until : sql<Date>`greatest(keepalive_until, ${until}::timestamptz)` })
    .where('id', '=', workspace_id)
    .returning('keepalive_until')
    .executeTakeFirst()
  return row?.keepalive_until ?? until
}
