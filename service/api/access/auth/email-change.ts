import type { authEmailChange, authEmailChangeConfirm } from '../../../../contract/routes/app/auth.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { insertMail } from '../../../core/people/mail/store.ts'
import { lockPersonByEmail, updatePerson } from '../../../core/people/credentials-store.ts'
import { dropEmailTokens, useEmailToken } from '../../../core/people/email-tokens-store.ts'
import { digestOf } from '../../../core/people/person-secrets.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { emailOf, personOf, personSubject, tokenInvalid } from './people.ts'
import type { ChangeDeps } from '../../calls/deps.ts'
import type { AccessDeps } from '../deps.ts'

const UNIQUE_VIOLATION = '23505'

/** A taken address gets no link, but the same answer: callers cannot test addresses. */
export async function changeEmail(call: Call<typeof authEmailChange>, deps: ChangeDeps & Pick<AccessDeps, 'people'>): Promise<Reply> {
  const { id } = personOf(call.who)
  const email = emailOf(call.body.new_email, 'new_email')
  deps.people.bounds.mail(email, call.address)
  const mail = { kind: 'change_email' as const, email, person_id: id }
  await changing(
    deps,
    call,
    (tx) => insertMail(tx, { ids: deps.ids, now: call.now }, mail),
    () => personSubject(id),
  )
  deps.people.wakeMailSender()
  return { status: 202, body: { status: 'accepted' } }
}

export async function confirmEmail(
  call: Call<typeof authEmailChangeConfirm>,
  deps: ChangeDeps & Pick<AccessDeps, 'people'>,
): Promise<Reply> {
  const { id, email: before } = personOf(call.who)
  const token = { token_sha256: digestOf(call.body.token), purpose: 'change_email', person_id: id, now: call.now } as const
  const work = async (tx: ChangeTx) => {
    const taken = await useEmailToken(tx, token)
    if (taken === undefined || (await lockPersonByEmail(tx, taken.email)) !== undefined) throw tokenInvalid()
    await updatePerson(tx, id, { email: taken.email, email_verified: true })
    for (const purpose of ['verify_email', 'reset_password'] as const) await dropEmailTokens(tx, id, purpose)
    await insertMail(tx, { ids: deps.ids, now: call.now }, { kind: 'email_changed', email: before, person_id: id })
    return taken.email
  }
  try {
    const email = await changing(deps, call, work, () => personSubject(id))
    deps.people.wakeMailSender()
    return { status: 200, body: { email } }
  } catch (error) {
    if ((error as { code?: unknown }).code === UNIQUE_VIOLATION) throw tokenInvalid() // another person registered the address concurrently
    throw error
  }
}
