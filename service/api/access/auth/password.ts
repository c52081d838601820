import type { authPasswordChange, authResetConfirm, authResetRequest, authStepUp } from '../../../../contract/routes/app/auth.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { insertMail } from '../../../core/people/mail/store.ts'
import { lockPasswordIfCurrent, lockCredentials, updatePerson, writeCredentials } from '../../../core/people/credentials-store.ts'
import { dropEmailTokens, useEmailToken } from '../../../core/people/email-tokens-store.ts'
import { digestOf } from '../../../core/people/person-secrets.ts'
import { revokeSessions } from '../../../core/people/sessions-store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { refuseCommon } from './common-passwords.ts'
import { changingByToken, invalidCredentials, personOf, personSubject, sessionSubject, tokenInvalid } from './people.ts'
import { askForMail } from './register.ts'
import { rotate } from './rotate.ts'
import { personOfToken, readAccount } from './store.ts'
import type { CallDeps, ChangeDeps, ReadDeps } from '../../calls/deps.ts'
import type { AccessDeps } from '../deps.ts'

export async function stepUp(call: Call<typeof authStepUp>, deps: ChangeDeps & ReadDeps & Pick<AccessDeps, 'people'>): Promise<Reply> {
  const { id, session } = personOf(call.who)
  const password_hash = await checkPassword(call, deps, call.body.password)
  const work = async (tx: ChangeTx) => {
    if (!(await lockPasswordIfCurrent(tx, id, password_hash))) throw invalidCredentials()
    return rotate(tx, call, { stepped_up_at: call.now })
  }
  return { status: 200, body: await changing(deps, call, work, () => sessionSubject(session.id)) }
}

export async function changePassword(
  call: Call<typeof authPasswordChange>,
  deps: ChangeDeps & ReadDeps & Pick<AccessDeps, 'people'>,
): Promise<Reply> {
  const { id, email, session } = personOf(call.who)
  const { current_password, new_password, end_other_sessions = false } = call.body
  refuseCommon(new_password, 'new_password', email)
  const checked = await checkPassword(call, deps, current_password)
  const password_hash = await deps.people.passwords.hash(new_password, { session_id: session.id })
  const work = async (tx: ChangeTx) => {
    const row = await lockCredentials(tx, id)
    if (row.password_hash !== checked) throw invalidCredentials() // a concurrent call has changed the password
    await writeCredentials(tx, id, { password_hash, password_changed_at: call.now })
    await dropEmailTokens(tx, id, 'reset_password')
    if (end_other_sessions) await revokeSessions(tx, id, call.now, session.id)
    await insertMail(tx, { ids: deps.ids, now: call.now }, { kind: 'password_changed', email, person_id: id })
    return rotate(tx, call, { stepped_up_at: call.now })
  }
  const body = await changing(deps, call, work, () => personSubject(id))
  deps.people.wakeMailSender()
  return { status: 200, body }
}

export function requestReset(
  call: Call<typeof authResetRequest>,
  deps: Pick<CallDeps, 'db' | 'ids'> & Pick<AccessDeps, 'people'>,
): Promise<Reply> {
  return askForMail(call, deps, 'reset_password')
}

/** Only the mailbox received the link, so its use also verifies the address. */
export async function confirmReset(
  call: Call<typeof authResetConfirm>,
  deps: ReadDeps & Pick<CallDeps, 'db' | 'ids'> & Pick<AccessDeps, 'people'>,
): Promise<Reply> {
  const token_sha256 = digestOf(call.body.token)
  refuseCommon(call.body.new_password, 'new_password')
  if ((await personOfToken(deps.reads, token_sha256)) === null) throw tokenInvalid() // checked before the hashing, which is expensive
  const password_hash = await deps.people.passwords.hash(call.body.new_password, call)
  const work = async (tx: ChangeTx) => {
    const taken = await useEmailToken(tx, { token_sha256, purpose: 'reset_password', now: call.now })
    if (taken === undefined) throw tokenInvalid()
    const { person_id, email } = taken
    await lockCredentials(tx, person_id)
    await writeCredentials(tx, person_id, { password_hash, password_changed_at: call.now })
    await updatePerson(tx, person_id, { email_verified: true })
    await revokeSessions(tx, person_id, call.now)
    await insertMail(tx, { ids: deps.ids, now: call.now }, { kind: 'password_changed', email, person_id })
    return person_id
  }
  await changingByToken(deps, call, token_sha256, work)
  deps.people.wakeMailSender()
  return { status: 204 }
}

/** @returns the hash that matched. */
async function checkPassword(call: Call, deps: ReadDeps & Pick<AccessDeps, 'people'>, password: string): Promise<string> {
  const { id, session } = personOf(call.who)
  const { bounds, passwords } = deps.people
  const checked = await bounds.guessInSession(session.id, async () => {
    const kept = (await readAccount(deps.reads, id))?.password_hash ?? null
    return (await passwords.matches(kept, password, { session_id: session.id })) ? kept : null
  })
  if (checked === null) throw invalidCredentials()
  return checked
}
