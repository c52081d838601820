import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Secret, TOTP } from 'otpauth'
import { lockSeconds, stepOf } from '../../service/api/access/auth/totp.ts'
import { PASSPHRASE, refusal, signInWorld, type SignInWorld } from './auth-support.ts'

let s: SignInWorld
before(async () => {
  s = await signInWorld()
})
after(() => s[Symbol.asyncDispose]())

const STEP_MS = 30_000
const codeOf = (secret: string, ahead_ms = s.w.clock.ahead_ms) =>
  new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: Date.now() + ahead_ms })
const wrongFor = (secret: string) => String((Number(codeOf(secret)) + 500_000) % 1_000_000).padStart(6, '0')

async function withFactor(email: string): Promise<{ secret: string; code: string; codes: string[]; token: string }> {
  await s.account(email)
  const first = await s.signIn(email)
  const started = await s.auth('mfa/totp', undefined, first)
  assert.equal(started.status, 201)
  const { secret, otpauth_url } = started.body
  assert.match(otpauth_url, /^otpauth:\/\/totp\/Berth/)
  const code = codeOf(secret)
  const confirmed = await s.auth('mfa/totp/confirm', { code }, first)
  assert.equal(confirmed.status, 200, JSON.stringify(confirmed.body))
  assert.deepEqual(refusal(await s.auth('session', undefined, first).then(() => s.w.get('/v1/me', { as: first }))), [
    401,
    'unauthenticated',
  ])
  return { secret, code, codes: confirmed.body.recovery_codes, token: confirmed.body.session_token }
}
const pending = async (email: string) => {
  const { body } = await s.auth('login', { email, password: PASSPHRASE })
  assert.equal(body.mfa_required, true)
  return body.session_token as string
}
const challenge = (as: string, body: object) => s.auth('mfa/challenge', body, as)
const later = async <T>(ms: number, act: () => Promise<T>): Promise<T> => {
  s.w.clock.ahead_ms += ms
  try {
    return await act()
  } finally {
    s.w.clock.ahead_ms -= ms
  }
}

test('the vectors of RFC 6238 are taken in their step and the ones beside it', () => {
  const secret = Buffer.from('12345678901234567890')
  for (const [seconds, code] of [
    [59, '287082'],
    [1111111109, '081804'],
    [1234567890, '005924'],
    [20000000000, '353130'],
  ] as const) {
    // prettier-ignore
    const step = Math.floor(seconds / 30)
    for (const [late, taken] of [
      [0, step],
      [30, step],
      [-30, step],
      [60, null],
      [-60, null],
    ] as const)
      // prettier-ignore
      assert.equal(stepOf(secret, code, new Date((seconds + late) * 1000)), taken, `${seconds} ${late}`)
  }
  for (const none of ['', '28708', '2870822', '28708a', ' 287082']) assert.equal(stepOf(secret, none, new Date(59_000)), null)
})

test('a sign-in waits for its code: nothing else takes its session, and a code is taken once', async () => {
  const email = 'two@example.com'
  const { secret, code: taken } = await withFactor(email)
  await s.box.mailTo(email, /Two factors/)
  const waiting = await pending(email)
  assert.deepEqual(refusal(await s.w.get('/v1/me', { as: waiting })), [403, 'mfa_required'])
  const seen = await s.w.get('/v1/auth/session', { as: waiting })
  assert.deepEqual([seen.body.mfa_required, seen.body.user, seen.body.stepped_up_until], [true, null, null])
  // The code that turned on the second factor is used up. The next step may have begun.
  assert.deepEqual(refusal(await challenge(waiting, { code: taken })), [401, 'invalid_credentials'])
  await later(2 * STEP_MS, async () => {
    const code = codeOf(secret)
    const sessions = await Promise.all(Array.from({ length: 10 }, () => pending(email)))
    const answers = await Promise.all(sessions.map((as) => challenge(as, { code })))
    const good = answers.filter(({ status }) => status === 200)
    assert.equal(good.length, 1)
    const signed = good[0]?.body.session_token as string
    assert.equal((await s.w.get('/v1/me', { as: signed })).body.user.mfa_enabled, true)
    assert.deepEqual(refusal(await challenge(signed, { code })), [409, 'conflict'])
  })
})

test('codes of two steps away are refused, also after the clock was set back', async () => {
  const email = 'steps@example.com'
  const { secret, codes } = await withFactor(email)
  await later(10 * STEP_MS, async () => {
    const waiting = await pending(email)
    for (const ms of [-2, 2])
      assert.equal((await challenge(waiting, { code: codeOf(secret, s.w.clock.ahead_ms + ms * STEP_MS) })).status, 401)
    assert.equal((await challenge(waiting, { code: codeOf(secret) })).status, 200)
  })
  const waiting = await pending(email) // the clock is back by five minutes, so its code is older than the accepted one
  assert.equal((await challenge(waiting, { code: codeOf(secret) })).status, 401)
  assert.equal((await challenge(waiting, { recovery_code: codes[0] })).status, 200)
})

test('a recovery code signs in once, however it is typed, though fifty come with it at once', async () => {
  const email = 'recovers@example.com'
  const { codes } = await withFactor(email)
  assert.deepEqual([codes.length, new Set(codes).size], [10, 10])
  const sessions = await Promise.all(Array.from({ length: 50 }, () => pending(email)))
  const typed = codes[0]?.toLowerCase().replaceAll('-', ' ')
  const answers = await Promise.all(sessions.map((as) => challenge(as, { recovery_code: typed })))
  const good = answers.filter(({ status }) => status === 200)
  assert.equal(good.length, 1)
  const as = good[0]?.body.session_token as string
  assert.deepEqual((await s.w.get('/v1/auth/mfa/recovery-codes', { as })).body, { left: 9 })
  const issued = await s.auth('mfa/recovery-codes', undefined, as)
  assert.equal(issued.body.recovery_codes.length, 10)
  const waiting = await pending(email)
  assert.deepEqual(refusal(await challenge(waiting, { recovery_code: codes[1] })), [401, 'invalid_credentials'])
  assert.equal((await challenge(waiting, { recovery_code: issued.body.recovery_codes[1] })).status, 200)
  for (const body of [{}, { code: '123456', recovery_code: 'x' }])
    assert.deepEqual(refusal(await challenge(await pending(email), body)), [422, 'validation_failed'])
})

test('too many wrong codes lock the factor of the account, for every session; a recovery code unlocks it', async () => {
  const email = 'locked@example.com'
  const { secret, codes } = await withFactor(email)
  const waiting = await pending(email)
  for (let n = 0; n < 5; n++) assert.deepEqual(refusal(await challenge(waiting, { code: wrongFor(secret) })), [401, 'invalid_credentials'])
  const locked = await challenge(waiting, { code: codeOf(secret) })
  assert.deepEqual(refusal(locked), [429, 'rate_limited/mfa_locked'])
  assert.ok(Number(locked.headers.get('retry-after')) > 14 * 60)
  await later(2 * STEP_MS, async () => {
    assert.deepEqual(refusal(await challenge(await pending(email), { code: codeOf(secret) })), [429, 'rate_limited/mfa_locked'])
  })
  await later(16 * 60_000, async () => {
    assert.deepEqual(refusal(await challenge(await pending(email), { code: wrongFor(secret) })), [401, 'invalid_credentials'])
    const again = await challenge(await pending(email), { code: codeOf(secret) })
    assert.deepEqual([refusal(again), Number(again.headers.get('retry-after')) > 29 * 60], [[429, 'rate_limited/mfa_locked'], true])
  })
  assert.equal((await challenge(waiting, { recovery_code: codes[0] })).status, 200)
  await later(2 * STEP_MS, async () => {
    assert.equal((await challenge(await pending(email), { code: codeOf(secret) })).status, 200)
  })
  assert.deepEqual([lockSeconds(4), lockSeconds(5), lockSeconds(6), lockSeconds(100)], [null, 900, 1800, 86_400])
})

test('of a hundred wrong codes at once no more are judged than lock it', async () => {
  const email = 'flood@example.com'
  const { secret } = await withFactor(email)
  const waiting = await pending(email)
  const answers = await Promise.all(Array.from({ length: 100 }, () => challenge(waiting, { code: wrongFor(secret) })))
  assert.equal(answers.filter(({ status }) => status === 401).length, 5)
  assert.equal(answers.filter((answer) => refusal(answer)[1] === 'rate_limited/mfa_locked').length, 95)
})

test('the second factor is turned on and off with a fresh password, each time under another token', async () => {
  const email = 'off@example.com'
  const { secret, token, codes } = await withFactor(email)
  assert.deepEqual(refusal(await s.auth('mfa/totp', undefined, token)), [409, 'conflict'])
  assert.deepEqual(refusal(await s.auth('mfa/totp/confirm', { code: codeOf(secret) }, token)), [409, 'conflict'])
  const disable = (as: string) => s.w.call('DELETE', '/v1/auth/mfa/totp', { as })
  assert.deepEqual(refusal(await later(11 * 60_000, () => disable(token))), [403, 'step_up_required'])
  const off = await disable(token)
  assert.equal(off.status, 200)
  assert.deepEqual(refusal(await s.w.get('/v1/me', { as: token })), [401, 'unauthenticated'])
  const as = off.body.session_token as string
  assert.deepEqual(refusal(await disable(as)), [409, 'conflict'])
  assert.deepEqual(refusal(await s.auth('mfa/recovery-codes', undefined, as)), [409, 'conflict'])
  assert.deepEqual((await s.w.get('/v1/auth/mfa/recovery-codes', { as })).body, { left: 0 })
  const { body } = await s.auth('login', { email, password: PASSPHRASE })
  assert.equal(body.mfa_required, false)
  assert.deepEqual(refusal(await challenge(body.session_token, { recovery_code: codes[0] })), [409, 'conflict'])
  await s.auth('mfa/totp', undefined, as)
  const confirm = () => s.auth('mfa/totp/confirm', { code: 'abcdef' }, as)
  for (let n = 0; n < 5; n++) assert.deepEqual(refusal(await confirm()), [401, 'invalid_credentials'])
  assert.deepEqual(refusal(await confirm()), [429, 'rate_limited/mfa_locked'])
  assert.deepEqual(refusal(await later(16 * 60_000, () => s.auth('mfa/totp/confirm', { code: '123456' }, as))), [403, 'step_up_required'])
})

test('secrets and codes are in the database as nobody can use them', async () => {
  const { secret, codes } = await withFactor('sealed@example.com')
  const rows = await s.w.database.superuser.selectFrom('person_credentials').selectAll().execute()
  const kept = rows.map((row) => `${row.password_hash} ${row.totp_sealed?.toString('latin1')}`).join()
  const codes_kept = (await s.w.database.superuser.selectFrom('recovery_codes').selectAll().execute())
    .map((row) => row.code_sha256.toString('latin1'))
    .join()
  assert.ok(!kept.includes(Buffer.from(Secret.fromBase32(secret).bytes).toString('latin1')))
  assert.ok(codes.every((code) => !codes_kept.includes(code)))
  assert.match(kept, /\$argon2id\$v=19\$m=47104,t=1,p=1\$/)
})
