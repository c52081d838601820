import type {
  authRecoveryCodes,
  authRecoveryCodesIssue,
  authTotpConfirm,
  authTotpDisable,
  authTotpStart,
} from '../../../../contract/routes/app/auth.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { insertMail } from '../../../core/people/mail/store.ts'
import { lockCredentials, replaceRecoveryCodes, updatePerson, writeCredentials } from '../../../core/people/credentials-store.ts'
import { digestOf } from '../../../core/people/person-secrets.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail, type Failure } from '../../../lib/fail.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { tryCode } from './challenge.ts'
import { personOf, personSubject } from './people.ts'
import { rotate } from './rotate.ts'
import { countRecoveryCodes } from './store.ts'
import { newRecoveryCodes, newTotpSecret, totpText } from './totp.ts'
import type { ChangeDeps, ReadDeps } from '../../calls/deps.ts'
import type { AccessDeps } from '../deps.ts'

export async function startTotp(call: Call<typeof authTotpStart>, deps: ChangeDeps & Pick<AccessDeps, 'people'>): Promise<Reply> {
  const { id, email } = personOf(call.who)
  const secret = newTotpSecret()
  const work = async (tx: ChangeTx) => {
    const row = await lockCredentials(tx, id)
    if (row.totp_sealed !== null) throw isOn()
    await writeCredentials(tx, id, { totp_pending_sealed: deps.people.secrets.seal(id, secret), totp_pending_at: call.now })
  }
  await changing(deps, call, work, () => personSubject(id))
  return { status: 201, body: totpText(secret, email) }
}

export async function confirmTotp(call: Call<typeof authTotpConfirm>, deps: ChangeDeps & Pick<AccessDeps, 'people'>): Promise<Reply> {
  const { id, email } = personOf(call.who)
  const recovery_codes = newRecoveryCodes()
  const work = async (tx: ChangeTx) => {
    const row = await lockCredentials(tx, id)
    if (row.totp_sealed !== null) throw isOn()
    const begun_before = call.now.getTime() - LIMITS.sign_in.pending_totp_minutes * 60_000
    const pending = row.totp_pending_at !== null && row.totp_pending_at.getTime() > begun_before ? row.totp_pending_sealed : null
    if (pending === null) throw fail('conflict', null, 'Begin with POST /v1/auth/mfa/totp')
    const refused = await tryCode(tx, deps, call, { ...row, totp_step: -1 }, call.body.code, pending)
    if (refused !== null) return { refused }
    await writeCredentials(tx, id, { totp_sealed: pending, totp_pending_sealed: null, totp_pending_at: null })
    await updatePerson(tx, id, { mfa_enabled: true })
    await replaceRecoveryCodes(tx, id, recovery_codes.map(digestOf), call.now)
    await insertMail(tx, { ids: deps.ids, now: call.now }, { kind: 'mfa_enabled', email, person_id: id })
    return { rotated: await rotate(tx, call, {}) }
  }
  const done = await changing(deps, call, work, (result) => ('rotated' in result ? personSubject(id) : null))
  if ('refused' in done) throw done.refused
  deps.people.wakeMailSender()
  return { status: 200, body: { ...done.rotated, recovery_codes } }
}

export async function disableTotp(call: Call<typeof authTotpDisable>, deps: ChangeDeps & Pick<AccessDeps, 'people'>): Promise<Reply> {
  const { id, email } = personOf(call.who)
  const work = async (tx: ChangeTx) => {
    const row = await lockCredentials(tx, id)
    if (row.totp_sealed === null) throw isOff()
    await writeCredentials(tx, id, { totp_sealed: null, totp_step: -1, totp_pending_sealed: null, totp_pending_at: null })
    await updatePerson(tx, id, { mfa_enabled: false })
    await replaceRecoveryCodes(tx, id, [], call.now)
    await insertMail(tx, { ids: deps.ids, now: call.now }, { kind: 'mfa_disabled', email, person_id: id })
    return rotate(tx, call, {})
  }
  const body = await changing(deps, call, work, () => personSubject(id))
  deps.people.wakeMailSender()
  return { status: 200, body }
}

export async function getRecoveryCodes(call: Call<typeof authRecoveryCodes>, deps: ReadDeps): Promise<Reply> {
  return { status: 200, body: { left: await countRecoveryCodes(deps.reads, personOf(call.who).id) } }
}

export async function issueRecoveryCodes(call: Call<typeof authRecoveryCodesIssue>, deps: ChangeDeps): Promise<Reply> {
  const { id } = personOf(call.who)
  const recovery_codes = newRecoveryCodes()
  const work = async (tx: ChangeTx) => {
    const row = await lockCredentials(tx, id)
    if (row.totp_sealed === null) throw isOff()
    await replaceRecoveryCodes(tx, id, recovery_codes.map(digestOf), call.now)
  }
  await changing(deps, call, work, () => personSubject(id))
  return { status: 200, body: { recovery_codes } }
}

function isOn(): Failure {
  return fail('conflict', null, 'The second factor is on already')
}

function isOff(): Failure {
  return fail('conflict', null, 'There is no second factor')
}
