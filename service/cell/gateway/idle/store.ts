import { sql } from 'kysely'
import type { IdleFacts } from '../../../core/workspaces/idle.ts'
import type { Db } from '../../../db/database.ts'

export interface IdleEvidence {
  facts: IdleFacts
  operation: { id: string; created_at: Date } | null
}

export async function readIdleEvidence(db: Db, workspace_id: string): Promise<IdleEvidence | null> {
  const row = await db
    .selectFrom('workspaces as w')
    .innerJoin('template_versions as v', 'v.id', 'w.template_version_id')
    .leftJoin('workspace_holds as h', 'h.workspace_id', 'w.id')
    .leftJoin('operations as o', 'o.id', 'h.operation_id')
    .select(['w.lifetime', 'w.idle_policy', 'w.active_at', 'w.tool_call_at', 'w.busy_until', 'w.keepalive_until'])
    .select(['w.suspend_requested_at', 'w.suspend_after_seconds', 'w.suspend_not_before'])
    .select(['w.idle_gaps', 'w.idle_failures', 'w.idle_retry_at', 'o.id', 'o.created_at'])
    .select(sql<IdleFacts['template_defaults'] | null>`v.settings -> 'defaults'`.as('defaults'))
    .where('w.id', '=', workspace_id)
    .executeTakeFirst()
  if (row === undefined) return null
  const { defaults, id, created_at, ...facts } = row
  return {
    facts: { ...facts, template_defaults: defaults ?? {} },
    operation: id === null || created_at === null ? null : { id, created_at },
  }
}

export async function writeKeepalive(db: Db, workspace_id: string, until: Date, ends: boolean): Promise<Date> {
  const row = await db
    .updateTable('workspaces')
    .set({ keepalive_until: ends ? until : sql<Date>`greatest(keepalive_until, ${until}::timestamptz)` })
    .where('id', '=', workspace_id)
    .returning('keepalive_until')
    .executeTakeFirst()
  return row?.keepalive_until ?? until
}
