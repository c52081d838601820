import type { invitationsAccept } from '../../../../contract/routes/app/members.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { insertMembership, lockOrganization, roleIn } from '../../../core/people/members/store.ts'
import { digestOf } from '../../../core/people/person-secrets.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { personOf, tokenInvalid } from '../auth/people.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { takeInvitation } from './store.ts'
import { invitationSubject } from './view.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

/** An existing member keeps the current role. */
export async function acceptInvitation(call: Call<typeof invitationsAccept>, deps: ChangeDeps): Promise<Reply> {
  const { id: person_id, email } = personOf(call.who)
  const work = async (tx: ChangeTx) => {
    const taken = await takeInvitation(tx, { token_sha256: digestOf(call.body.token), email, now: call.now })
    if (taken === undefined) throw tokenInvalid()
    const { organization_id } = taken
    const organization = await lockOrganization(tx, organization_id)
    if (organization === undefined) throw tokenInvalid()
    await insertMembership(tx, { organization_id, person_id, role: taken.role, created_at: call.now })
    return { taken, organization, role: (await roleIn(tx, organization_id, person_id)) ?? taken.role }
  }
  const { organization, role } = await changing(deps, call, work, ({ taken }) => invitationSubject(taken))
  const { id, name, slug, created_at } = organization
  return { status: 200, body: { id, name, slug, role, created_at: created_at.toISOString() } }
}
