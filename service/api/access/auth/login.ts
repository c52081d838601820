import type { authLogin } from '../../../../contract/routes/app/auth.ts'
import type { SignedIn } from '../../../../contract/schemas/auth.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { newSessionToken } from '../../../core/keys/new-credentials.ts'
import { lockPasswordIfCurrent } from '../../../core/people/credentials-store.ts'
import { normalizeEmail } from '../../../core/people/email.ts'
import { insertSession } from '../../../core/people/sessions-store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { changingAs, invalidCredentials, sessionDaysFrom, sessionEnd, sessionSubject } from './people.ts'
import { findAccount, type AccountRow } from './store.ts'
import type { CallDeps, ReadDeps } from '../../calls/deps.ts'
import type { AccessDeps } from '../deps.ts'

/** An unknown account and a wrong password get the same answer after the same time. */
export async function logIn(
  call: Call<typeof authLogin>,
  deps: ReadDeps & Pick<CallDeps, 'db' | 'ids'> & Pick<AccessDeps, 'people'>,
): Promise<Reply> {
  const { bounds, passwords } = deps.people
  const email = normalizeEmail(call.body.email) ?? call.body.email
  const account = await bounds.guess(email, call.address, async () => {
    const found = await findAccount(deps.reads, email)
    const is_right = await passwords.matches(found?.password_hash ?? null, call.body.password, call)
    return is_right ? found : null
  })
  if (account === null) throw invalidCredentials()
  const body = await signIn(call, deps, account)
  return { status: 200, body }
}

async function signIn(call: Call<typeof authLogin>, deps: Pick<CallDeps, 'db' | 'ids'>, account: AccountRow): Promise<SignedIn> {
  const { token, token_sha256 } = newSessionToken()
  const times = { created_at: call.now, last_used_at: call.now, expires_at: sessionDaysFrom(call.now), revoked_at: null }
  const session = {
    id: deps.ids.next(),
    person_id: account.id,
    token_sha256,
    mfa_pending: account.mfa_enabled,
    stepped_up_at: call.now, // the password was checked just now
    device: call.body.device ?? deviceOf(call.headers['user-agent']),
    address: call.address === '' ? null : call.address,
    ...times,
  }
  const work = async (tx: ChangeTx) => {
    if (!(await lockPasswordIfCurrent(tx, account.id, account.password_hash ?? ''))) throw invalidCredentials()
    await insertSession(tx, session)
  }
  await changingAs(deps, call, account.id, work, () => sessionSubject(session.id))
  const { mfa_enabled: mfa_required, email_verified } = account
  return { session_token: token, session_expires_at: sessionEnd(session, call.now).toISOString(), mfa_required, email_verified }
}

function deviceOf(user_agent: string | undefined): string | null {
  const shown = (user_agent ?? '').replaceAll(/[^\x20-\x7e]/g, '').slice(0, LIMITS.sign_in.device_characters_max)
  return shown === '' ? null : shown
}
