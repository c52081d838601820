import type { Organization } from '../../../../contract/schemas/principals.ts'
import type { Principal } from '../../../http/call.ts'
import type { OrganizationRow } from './store.ts'

export function organizationView(who: Principal, { id, name, slug, created_at }: OrganizationRow): Organization {
  const role = who.type === 'user' ? (who.memberships.find((membership) => membership.organization_id === id)?.role ?? null) : null
  return { id, name, slug, role, created_at: created_at.toISOString() }
}
