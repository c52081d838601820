import type { auditList } from '../../../../contract/routes/app/audit.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { AuditEvent } from '../../../../contract/schemas/audit.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { cursorAfter, pageOf } from '../../calls/pages.ts'
import { listEvents, type EventRow } from './store.ts'
import type { PageDeps } from '../../calls/deps.ts'

export async function listAuditEvents(call: Call<typeof auditList>, deps: PageDeps): Promise<Reply> {
  const { organization_id } = call.params
  const { rows, last } = await listEvents(deps.reads, organization_id, call.query, pageOf(deps.cursor_keys, call), LIMITS.audit.looked_max)
  const next_cursor = last === null ? null : cursorAfter(deps.cursor_keys, call, last)
  return { status: 200, body: { data: rows.map((row) => eventView(organization_id, row)), next_cursor } }
}

export function eventView(organization_id: string, row: EventRow): AuditEvent {
  const { id, created_at, project_id, actor_kind, actor_id, actor_name, action, subject_kind, subject_id } = row
  return {
    id,
    created_at: created_at.toISOString(),
    organization_id,
    project_id,
    actor: { kind: actor_kind, id: actor_id, name: actor_name },
    action,
    subject: { kind: subject_kind, id: subject_id },
    request_id: row.request_id,
    source_address: row.source_address,
    details: row.details,
    sequence: row.sequence,
    sha256: row.sha256?.toString('hex') ?? null,
  }
}
