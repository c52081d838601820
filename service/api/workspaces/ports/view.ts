import type { Port } from '../../../../contract/schemas/ports.ts'
import type { AuditTarget } from '../../../core/changes/audit.ts'
import { portUrl } from '../../../core/workspaces/ports/url.ts'
import type { PortRow } from './store.ts'

export function portView(ports_url: string, row: PortRow): Port {
  const { workspace_id, port, requests, received_bytes, sent_bytes, last_request_at, created_at, callback_created_at } = row
  return {
    workspace_id,
    port,
    url: portUrl(ports_url, workspace_id, port),
    callback: callback_created_at === null ? null : { created_at: callback_created_at.toISOString() },
    requests,
    received_bytes,
    sent_bytes,
    last_request_at: last_request_at?.toISOString() ?? null,
    created_at: created_at.toISOString(),
  }
}

export function portSubject(
  { id: workspace_id, organization_id, project_id }: { id: string; organization_id: string; project_id: string },
  { id, port }: Pick<PortRow, 'id' | 'port'>,
  details: NonNullable<AuditTarget['details']> = {},
): AuditTarget {
  return { kind: 'port', id, organization_id, project_id, details: { workspace_id, port, ...details } }
}
