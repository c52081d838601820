import { LIMITS } from '../../../../contract/limits.ts'
import type { invitationsDelete, invitationsResend } from '../../../../contract/routes/app/members.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { insertMail } from '../../../core/people/mail/store.ts'
import { lockOrganization } from '../../../core/people/members/store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { notFound } from '../../calls/scope.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { ownRole, refuseGrant } from '../members/rules.ts'
import { invitationEnd } from './create.ts'
import { lastMailed, lockInvitation, writeInvitation } from './store.ts'
import { invitationSubject, invitationView } from './view.ts'
import type { ChangeDeps } from '../../calls/deps.ts'
import type { AccessDeps } from '../deps.ts'

export async function resendInvitation(
  call: Call<typeof invitationsResend>,
  deps: ChangeDeps & Pick<AccessDeps, 'people'>,
): Promise<Reply> {
  const expires_at = invitationEnd(call.now)
  const work = async (tx: ChangeTx) => {
    const invitation = await lockAsAdministrator(tx, call)
    if (invitation.accepted_at !== null || invitation.revoked_at !== null) throw notFound('invitation')
    await refuseSoon(tx, call, invitation.id)
    await writeInvitation(tx, invitation.id, { expires_at })
    const mail = { kind: 'invitation' as const, email: invitation.email, invitation_id: invitation.id }
    await insertMail(tx, { ids: deps.ids, now: call.now }, mail)
    return invitation
  }
  const invitation = await changing(deps, call, work, invitationSubject)
  deps.people.wakeMailSender()
  return { status: 200, body: invitationView({ ...invitation, expires_at }) }
}

export async function deleteInvitation(call: Call<typeof invitationsDelete>, deps: ChangeDeps): Promise<Reply> {
  const work = async (tx: ChangeTx) => {
    const invitation = await lockAsAdministrator(tx, call)
    if (invitation.accepted_at !== null) throw notFound('invitation')
    if (invitation.revoked_at !== null) return null
    await writeInvitation(tx, invitation.id, { revoked_at: call.now })
    return invitation
  }
  await changing(deps, call, work, (invitation) => invitation && invitationSubject(invitation))
  return { status: 204 }
}

async function lockAsAdministrator(tx: ChangeTx, call: Call<typeof invitationsResend> | Call<typeof invitationsDelete>) {
  const { organization_id, invitation_id } = call.params
  await lockOrganization(tx, organization_id)
  const own = await ownRole(tx, call, organization_id)
  const invitation = await lockInvitation(tx, organization_id, invitation_id)
  if (invitation === undefined) throw notFound('invitation')
  refuseGrant(call, own, [invitation.role], null)
  return invitation
}

async function refuseSoon(tx: ChangeTx, { now }: Call, id: string): Promise<void> {
  const mailed_at = await lastMailed(tx, id)
  const left_ms = (mailed_at?.getTime() ?? 0) + LIMITS.organization.invitation_resend_seconds * 1000 - now.getTime()
  if (left_ms > 0) throw fail('rate_limited', null, 'It was sent a moment ago', { retry_after_seconds: Math.ceil(left_ms / 1000) })
}
