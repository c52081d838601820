import type { membersDelete } from '../../../../contract/routes/app/members.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { deleteMembership, lockOrganization, roleIn } from '../../../core/people/members/store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { personOf } from '../auth/people.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { ownRole, refuseGrant, refuseLastOwner } from './rules.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

export async function deleteMember(call: Call<typeof membersDelete>, deps: ChangeDeps): Promise<Reply> {
  const { organization_id, person_id } = call.params
  if (!maySeeOrganization(call.who, organization_id)) throw notFound('organization')
  const work = async (tx: ChangeTx) => {
    await lockOrganization(tx, organization_id)
    const own = await ownRole(tx, call, organization_id)
    const role = await roleIn(tx, organization_id, person_id)
    if (role === null) throw notFound('member')
    if (person_id !== personOf(call.who).id) refuseGrant(call, own, [role], null)
    await refuseLastOwner(tx, organization_id, role)
    await deleteMembership(tx, organization_id, person_id)
    return role
  }
  await changing(deps, call, work, (role) => ({ kind: 'person', id: person_id, organization_id, project_id: null, details: { role } }))
  return { status: 204 }
}
