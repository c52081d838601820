import type { Export } from '../../../../contract/schemas/exports.ts'
import type { Principal } from '../../../http/call.ts'
import { personOf } from '../../access/auth/people.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import type { ExportRow, ExportOwner } from './store.ts'

export function whoseExports(who: Principal, params: { organization_id?: string }): ExportOwner {
  const { organization_id } = params
  if (organization_id === undefined) return { person_id: personOf(who).id }
  if (!maySeeOrganization(who, organization_id)) throw notFound('organization')
  return { organization_id }
}

export function exportView(row: ExportRow): Export {
  const { id, organization_id, requested_by, state, failure, size_bytes, sha256 } = row
  return {
    id,
    organization_id,
    requested_by,
    state,
    failure,
    size_bytes,
    sha256,
    created_at: row.created_at.toISOString(),
    completed_at: row.completed_at?.toISOString() ?? null,
    expires_at: row.expires_at?.toISOString() ?? null,
  }
}
