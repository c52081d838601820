import type { membersUpdate } from '../../../../contract/routes/app/members.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { lockOrganization, roleIn, writeRole } from '../../../core/people/members/store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { notFound } from '../../calls/scope.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { memberView } from './list.ts'
import { ownRole, refuseGrant, refuseLastOwner } from './rules.ts'
import { readMember } from './store.ts'
import type { ChangeDeps, ReadDeps } from '../../calls/deps.ts'

export async function updateMember(call: Call<typeof membersUpdate>, deps: ChangeDeps & ReadDeps): Promise<Reply> {
  const { organization_id, person_id } = call.params
  const { role } = call.body
  const work = async (tx: ChangeTx) => {
    await lockOrganization(tx, organization_id)
    const own = await ownRole(tx, call, organization_id)
    const before = await roleIn(tx, organization_id, person_id)
    if (before === null) throw notFound('member')
    refuseGrant(call, own, [before, role], before === role ? null : role)
    if (before === role) return false
    await refuseLastOwner(tx, organization_id, before)
    await writeRole(tx, organization_id, person_id, role)
    return true
  }
  const subject = { kind: 'person', id: person_id, organization_id, project_id: null, details: { role } } as const
  await changing(deps, call, work, (changed) => (changed ? subject : null))
  const row = await readMember(deps.reads, organization_id, person_id)
  if (row === null) throw notFound('member')
  return { status: 200, body: memberView(row) }
}
