import type { authRegister, authResend, authVerifyEmail } from '../../../../contract/routes/app/auth.ts'
import { insertMail } from '../../../core/people/mail/store.ts'
import { insertPerson, lockCredentials, lockPersonByEmail, updatePerson, writeCredentials } from '../../../core/people/credentials-store.ts'
import { domainOf } from '../../../core/people/email.ts'
import { useEmailToken } from '../../../core/people/email-tokens-store.ts'
import { digestOf } from '../../../core/people/person-secrets.ts'
import { revokeSessions } from '../../../core/people/sessions-store.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { refuseCommon } from './common-passwords.ts'
import { changingAs, changingByToken, emailOf, personSubject, tokenInvalid } from './people.ts'
import { isInvited } from './store.ts'
import type { CallDeps, ReadDeps } from '../../calls/deps.ts'
import type { AccessDeps } from '../deps.ts'

const ACCEPTED = { status: 202, body: { status: 'accepted' } }

/** Answer and duration are always the same. Only mail to the address reveals whether it has an account. */
export async function register(
  call: Call<typeof authRegister>,
  deps: ReadDeps & Pick<CallDeps, 'db' | 'ids'> & Pick<AccessDeps, 'people'>,
): Promise<Reply> {
  const { password, display_name = null, invitation_token } = call.body
  const email = emailOf(call.body.email)
  refuseCommon(password, 'password', email)
  const is_invited = await refuseUninvited(call, deps, email, invitation_token)
  deps.people.bounds.mail(email, call.address)
  const password_hash = await deps.people.passwords.hash(password, call)
  const id = deps.ids.next()
  const work = async (tx: ChangeTx) => {
    const person = { id, email, email_verified: is_invited, display_name, created_at: call.now }
    const is_new = await insertPerson(tx, person)
    const found = is_new ? person : await lockPersonByEmail(tx, email)
    if (found === undefined) throw new Error('a person who was there is gone')
    const mail = (kind: 'verify_email' | 'already_registered') =>
      insertMail(tx, { ids: deps.ids, now: call.now }, { kind, email, person_id: found.id })
    if (!is_new && found.email_verified) {
      await mail('already_registered')
      return null
    }
    // A second registration of an unverified address replaces the password and name of the first.
    await lockCredentials(tx, found.id)
    await writeCredentials(tx, found.id, { password_hash, password_changed_at: call.now })
    if (!is_new) {
      await revokeSessions(tx, found.id, call.now)
      await updatePerson(tx, found.id, { display_name, email_verified: is_invited })
    }
    if (!is_invited) await mail('verify_email')
    return found.id
  }
  await changingAs(deps, call, id, work, (person_id) => (person_id === null ? null : personSubject(person_id)))
  deps.people.wakeMailSender()
  return ACCEPTED
}

/** Only the invited mailbox received the token, so the token verifies the address. */
async function refuseUninvited(
  call: Call,
  { reads, people }: ReadDeps & Pick<AccessDeps, 'people'>,
  email: string,
  token: string | undefined,
): Promise<boolean> {
  if (token !== undefined) {
    if (!(await isInvited(reads, digestOf(token), email, call.now))) throw tokenInvalid()
    return true
  }
  const { registration } = people
  const is_open = registration === 'open' || (registration !== 'invitation' && registration.includes(domainOf(email)))
  if (!is_open) throw fail('forbidden', null, 'Registration is by invitation here')
  return false
}

export async function verifyEmail(call: Call<typeof authVerifyEmail>, deps: ReadDeps & Pick<CallDeps, 'db' | 'ids'>): Promise<Reply> {
  const token_sha256 = digestOf(call.body.token)
  const work = async (tx: ChangeTx) => {
    const taken = await useEmailToken(tx, { token_sha256, purpose: 'verify_email', now: call.now })
    if (taken === undefined) throw tokenInvalid()
    await updatePerson(tx, taken.person_id, { email_verified: true })
    return taken.person_id
  }
  await changingByToken(deps, call, token_sha256, work)
  return { status: 204 }
}

/** The mail sender decides whether a mail is due, so all addresses get the same answer. */
export async function resendVerification(
  call: Call<typeof authResend>,
  deps: Pick<CallDeps, 'db' | 'ids'> & Pick<AccessDeps, 'people'>,
): Promise<Reply> {
  return askForMail(call, deps, 'verify_email')
}

export async function askForMail(
  call: Pick<Call, 'now' | 'request_id' | 'address' | 'route'> & { body: { email: string } },
  deps: Pick<CallDeps, 'db' | 'ids'> & Pick<AccessDeps, 'people'>,
  kind: 'verify_email' | 'reset_password',
): Promise<Reply> {
  const email = emailOf(call.body.email)
  deps.people.bounds.mail(email, call.address)
  await changingAs(
    deps,
    call,
    deps.ids.next(),
    (tx) => insertMail(tx, { ids: deps.ids, now: call.now }, { kind, email }),
    () => null,
  )
  deps.people.wakeMailSender()
  return ACCEPTED
}
