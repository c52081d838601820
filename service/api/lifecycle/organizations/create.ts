import { LIMITS } from '../../../../contract/limits.ts'
import type { organizationsCreate } from '../../../../contract/routes/app/members.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { countOwned, insertMembership } from '../../../core/people/members/store.ts'
import { insertOrganization } from '../../../core/people/organizations/store.ts'
import { findPlan } from '../../../core/money/plans/store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { personOf } from '../../access/auth/people.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { unlessTaken } from '../../calls/names.ts'
import { slugOf } from '../../../core/people/organizations/slug.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

const { owned_per_person_max } = LIMITS.organization
const FIRST_PLAN = 'unlimited'

export async function createOrganization(call: Call<typeof organizationsCreate>, deps: ChangeDeps): Promise<Reply> {
  const { id: person_id } = personOf(call.who)
  const { name, slug = slugOf(name) } = call.body
  const organization = { id: deps.ids.next(), name, slug, created_at: call.now }
  const work = async (tx: ChangeTx) => {
    const current = await countOwned(tx, person_id)
    if (current >= owned_per_person_max) {
      const details = { limit: 'organizations_per_person', limit_value: owned_per_person_max, current }
      throw fail('quota_exceeded', null, 'You own as many organizations as a person may', { details })
    }
    const plan = await findPlan(tx, FIRST_PLAN)
    if (plan === undefined) throw new Error(`there is no plan ${FIRST_PLAN}`)
    await insertOrganization(tx, { ...organization, plan_id: plan.id, allowance_exhausted: null })
    await insertMembership(tx, { organization_id: organization.id, person_id, role: 'owner', created_at: call.now })
  }
  const subject = {
    kind: 'organization',
    id: organization.id,
    organization_id: organization.id,
    project_id: null,
    details: { slug },
  } as const
  await unlessTaken(changing(deps, call, work, () => subject))
  return { status: 201, body: { ...organization, role: 'owner', created_at: call.now.toISOString() } }
}
