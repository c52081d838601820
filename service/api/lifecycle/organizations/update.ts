import type { organizationsUpdate } from '../../../../contract/routes/app/members.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { lockOrganization } from '../../../core/people/members/store.ts'
import { updateOrganization } from '../../../core/people/organizations/store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { notFound } from '../../calls/scope.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { organizationView } from './view.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

export async function renameOrganization(call: Call<typeof organizationsUpdate>, deps: ChangeDeps): Promise<Reply> {
  const { organization_id: id } = call.params
  const { name } = call.body
  const work = async (tx: ChangeTx) => {
    const row = await lockOrganization(tx, id)
    if (row === undefined) throw notFound('organization')
    if (row.name === name) return { row, is_new: false }
    await updateOrganization(tx, id, { name })
    return { row, is_new: true }
  }
  const subject = { kind: 'organization', id, organization_id: id, project_id: null } as const
  const { row } = await changing(deps, call, work, ({ is_new }) => (is_new ? subject : null))
  return { status: 200, body: organizationView(call.who, { ...row, name }) }
}
