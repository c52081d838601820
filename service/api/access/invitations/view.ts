import type { Invitation } from '../../../../contract/schemas/members.ts'
import type { AuditTarget } from '../../../core/changes/audit.ts'
import type { InvitationRow } from './store.ts'

type Shown = Pick<InvitationRow, 'id' | 'organization_id' | 'email' | 'role' | 'invited_by' | 'created_at' | 'expires_at'>

export function invitationView({ id, organization_id, email, role, invited_by, created_at, expires_at }: Shown): Invitation {
  return { id, organization_id, email, role, invited_by, created_at: created_at.toISOString(), expires_at: expires_at.toISOString() }
}

export function invitationSubject({ id, organization_id, role }: Pick<Shown, 'id' | 'organization_id' | 'role'>): AuditTarget {
  return { kind: 'invitation', id, organization_id, project_id: null, details: { role } }
}
