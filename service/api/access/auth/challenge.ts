import type { authChallenge } from '../../../../contract/routes/app/auth.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import {
  lockCredentials,
  useRecoveryCode,
  writeCredentials,
  type Credentials,
  type CredentialsChange,
} from '../../../core/people/credentials-store.ts'
import { digestOf } from '../../../core/people/person-secrets.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail, type Failure } from '../../../lib/fail.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { invalidCredentials, personOf, sessionSubject } from './people.ts'
import { rotate } from './rotate.ts'
import { readAccount, readSession } from './store.ts'
import { lockSeconds, normalizeRecoveryCode, stepOf } from './totp.ts'
import type { ChangeDeps, ReadDeps } from '../../calls/deps.ts'
import type { AccessDeps } from '../deps.ts'

export async function challenge(
  call: Call<typeof authChallenge>,
  deps: ChangeDeps & ReadDeps & Pick<AccessDeps, 'people'>,
): Promise<Reply> {
  const { code, recovery_code } = call.body
  if ((code === undefined) === (recovery_code === undefined)) throw oneOfBoth()
  const { id, session } = personOf(call.who)
  const work = async (tx: ChangeTx) => {
    const row = await lockCredentials(tx, id)
    const found = await readSession(readerOf(tx), session.id)
    if (found?.mfa_pending !== true) throw fail('conflict', null, 'The session does not wait for a second factor')
    const refused = code === undefined ? await tryRecoveryCode(tx, call, id, recovery_code ?? '') : await tryCode(tx, deps, call, row, code)
    if (refused !== null) return { refused }
    return { rotated: await rotate(tx, call, { mfa_pending: false }) }
  }
  // The refusal is thrown after the transaction, because the count of wrong codes must be committed.
  const done = await changing(deps, call, work, (result) => ('rotated' in result ? sessionSubject(session.id) : null))
  if ('refused' in done) throw done.refused
  const account = await readAccount(deps.reads, id)
  return { status: 200, body: { ...done.rotated, mfa_required: false, email_verified: account?.email_verified ?? false } }
}

/** Requires a lock on the credentials' row: two concurrent calls cannot use the same code. */
export async function tryCode(
  tx: ChangeTx,
  deps: Pick<AccessDeps, 'people'>,
  { now }: Pick<Call, 'now'>,
  row: Credentials,
  code: string,
  sealed: Buffer | null = row.totp_sealed,
): Promise<Failure | null> {
  const locked = locking(row, now)
  if (locked !== null) return locked
  const secret = sealed === null ? null : deps.people.secrets.open(row.person_id, sealed)
  const step = secret === null ? null : stepOf(secret, code, now)
  const is_right = step !== null && step > row.totp_step
  await writeCredentials(tx, row.person_id, is_right ? { totp_step: step, ...UNLOCKED } : failedOnce(row, now))
  return is_right ? null : invalidCredentials()
}

/** A recovery code cannot be guessed, so it is accepted while the second factor is locked, and unlocks the factor. */
async function tryRecoveryCode(tx: ChangeTx, { now }: Call, person_id: string, typed: string): Promise<Failure | null> {
  if (!(await useRecoveryCode(tx, person_id, digestOf(normalizeRecoveryCode(typed)), now))) return invalidCredentials()
  await writeCredentials(tx, person_id, UNLOCKED)
  return null
}

const UNLOCKED = { mfa_failures: 0, mfa_locked_until: null } as const

function failedOnce({ mfa_failures }: Credentials, now: Date): CredentialsChange {
  const failures = mfa_failures + 1
  const seconds = lockSeconds(failures)
  return { mfa_failures: failures, ...(seconds === null ? {} : { mfa_locked_until: new Date(now.getTime() + seconds * 1000) }) }
}

function locking({ mfa_locked_until }: Credentials, now: Date): Failure | null {
  const left_ms = (mfa_locked_until?.getTime() ?? 0) - now.getTime()
  if (left_ms <= 0) return null
  const retry_after_seconds = Math.ceil(left_ms / 1000)
  return fail('rate_limited', 'mfa_locked', 'Too many codes were wrong. A recovery code signs in at once', { retry_after_seconds })
}

function oneOfBoth(): Failure {
  const issues = [{ path: 'code', message: 'is required, or recovery_code in its place' }]
  return fail('validation_failed', null, 'The request is not valid', { details: { issues } })
}
