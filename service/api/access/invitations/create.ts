import { LIMITS } from '../../../../contract/limits.ts'
import type { invitationsCreate } from '../../../../contract/routes/app/members.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { insertMail } from '../../../core/people/mail/store.ts'
import { lockOrganization } from '../../../core/people/members/store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { emailOf, personOf } from '../auth/people.ts'
import { takeOfDay } from '../../calls/daily/take.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { ownRole, refuseGrant } from '../members/rules.ts'
import { countWaiting, endExpired, insertInvitation, isMemberByEmail } from './store.ts'
import { invitationSubject, invitationView } from './view.ts'
import type { ChangeDeps } from '../../calls/deps.ts'
import type { AccessDeps } from '../deps.ts'

const DAY_MS = 24 * 3600 * 1000
const { invitations_max, invitation_days } = LIMITS.organization

export async function createInvitation(
  call: Call<typeof invitationsCreate>,
  deps: ChangeDeps & Pick<AccessDeps, 'people'>,
): Promise<Reply> {
  const { organization_id } = call.params
  const { role } = call.body
  const email = emailOf(call.body.email)
  const invitation = {
    id: deps.ids.next(),
    organization_id,
    email,
    role,
    invited_by: personOf(call.who).id,
    created_at: call.now,
    expires_at: invitationEnd(call.now),
  }
  const work = async (tx: ChangeTx) => {
    await lockOrganization(tx, organization_id)
    refuseGrant(call, await ownRole(tx, call, organization_id), [role], role)
    if (await isMemberByEmail(tx, organization_id, email)) throw fail('conflict', null, 'They are a member already')
    await endExpired(tx, organization_id, email, call.now)
    const current = await countWaiting(tx, organization_id, call.now)
    if (current >= invitations_max) throw tooMany(current)
    const is_new = await insertInvitation(tx, { ...invitation, token_sha256: null, accepted_at: null, revoked_at: null })
    if (!is_new) throw fail('conflict', 'concurrent_invitation', 'An invitation of this address waits already: send it again instead')
    await takeOfDay(tx, 'invitations', organization_id, call.now)
    await insertMail(tx, { ids: deps.ids, now: call.now }, { kind: 'invitation', email, invitation_id: invitation.id })
  }
  await changing(deps, call, work, () => invitationSubject(invitation))
  deps.people.wakeMailSender()
  return { status: 201, body: invitationView(invitation) }
}

export function invitationEnd(now: Date): Date {
  return new Date(now.getTime() + invitation_days * DAY_MS)
}

function tooMany(current: number) {
  const details = { limit: 'invitations', limit_value: invitations_max, current }
  return fail('quota_exceeded', null, 'Too many invitations wait to be accepted', { details })
}
