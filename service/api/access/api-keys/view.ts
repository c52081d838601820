import type { ApiKey } from '../../../../contract/schemas/members.ts'
import type { AuditTarget } from '../../../core/changes/audit.ts'
import type { KeyRow } from './store.ts'

export function keyView({ created_at, expires_at, revoked_at, last_used_at, ...row }: KeyRow): ApiKey {
  return {
    ...row,
    created_at: created_at.toISOString(),
    expires_at: expires_at?.toISOString() ?? null,
    revoked_at: revoked_at?.toISOString() ?? null,
    last_used_at: last_used_at?.toISOString() ?? null,
  }
}

type Named = Pick<KeyRow, 'id' | 'key_id' | 'organization_id' | 'project_id'>

export function keySubject(
  { id, key_id, organization_id, project_id }: Named,
  details: NonNullable<AuditTarget['details']> = {},
): AuditTarget {
  return { kind: 'api_key', id, organization_id, project_id, details: { key_id, ...details } }
}
