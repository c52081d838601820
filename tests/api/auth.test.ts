import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { depth } from '../support/depth.ts'
import { until } from '../support/processes.ts'
import { PASSPHRASE, refusal, signInWorld, type SignInWorld } from './auth-support.ts'
import { seeder } from './support.ts'

let s: SignInWorld
before(async () => {
  s = await signInWorld()
})
after(() => s[Symbol.asyncDispose]())

const DAY_MS = 24 * 3600 * 1000
const at = async <T>(ahead_ms: number, act: () => Promise<T>): Promise<T> => {
  s.w.clock.ahead_ms = ahead_ms
  try {
    return await act()
  } finally {
    s.w.clock.ahead_ms = 0
  }
}
const me = (as: string) => s.w.get('/v1/me', { as })
const UNAUTHENTICATED = [401, 'unauthenticated']

test('a person registers, verifies the address by a mailed link, and signs in', async () => {
  const email = 'ada@example.com'
  const registered = await s.auth('register', { email, password: PASSPHRASE, display_name: 'Ada' })
  assert.deepEqual([registered.status, registered.body], [202, { status: 'accepted' }])
  const before_link = await s.auth('login', { email, password: PASSPHRASE })
  assert.deepEqual([before_link.status, before_link.body.email_verified, before_link.body.mfa_required], [200, false, false])
  assert.deepEqual(refusal(await me(before_link.body.session_token)), [403, 'email_unverified'])
  const seen = await s.w.get('/v1/auth/session', { as: before_link.body.session_token })
  assert.deepEqual([seen.status, seen.body.email_verified, seen.body.user.display_name], [200, false, 'Ada'])
  const mail = await s.box.mailTo(email, /Verify/)
  assert.ok(mail.text?.includes('http://api.test/verify-email#token='))
  assert.equal(mail.html, undefined)
  const token = await s.box.tokenTo(email, /Verify/)
  assert.equal((await s.auth('verify-email', { token })).status, 204)
  assert.deepEqual(refusal(await s.auth('verify-email', { token })), [400, 'token_invalid'])
  const { status, body } = await s.auth('login', { email, password: PASSPHRASE, device: 'a test' })
  assert.equal(status, 200)
  assert.match(body.session_token, /^sfu_[A-Za-z0-9_-]{43}$/)
  const days = (Date.parse(body.session_expires_at) - Date.now()) / DAY_MS
  assert.ok(Math.abs(days - 30) < 0.01, String(days))
  assert.equal((await me(body.session_token)).body.user.email_verified, true)
})

test('an address in any case, composition and width is one account, and an invalid address is refused', async () => {
  await s.account('rené.müller@bücher.example')
  for (const same of ['RENÉ.MÜLLER@BÜCHER.EXAMPLE', 'rene\u0301.mu\u0308ller@xn--bcher-kva.example', 'ｒené.müller＠bücher.example'])
    assert.equal((await s.auth('login', { email: same, password: PASSPHRASE })).status, 200, same)
  const composed = await s.auth('register', { email: 'René.Müller@Bücher.Example', password: 'another password' })
  assert.equal(composed.status, 202)
  assert.equal((await s.auth('login', { email: 'rené.müller@bücher.example', password: 'another password' })).status, 401)
  for (const none of [
    'abc',
    'a@',
    '@b.example',
    'a b@c.example',
    'a@b@c.example',
    'a@-.example',
    'a@b..example',
    `${'x'.repeat(65)}@b.example`,
  ])
    assert.deepEqual(refusal(await s.auth('register', { email: none, password: PASSPHRASE })), [422, 'validation_failed'], none)
})

test('a second registration of an address gets the same answer, and its mailbox is notified', async () => {
  const email = 'twice@example.com'
  await s.account(email)
  const [again, fresh] = [
    await s.auth('register', { email, password: 'another password' }),
    await s.auth('register', { email: 'fresh@example.com', password: 'another password' }),
  ]
  assert.deepEqual([again.status, again.body], [fresh.status, fresh.body])
  assert.deepEqual([...again.headers.keys()].sort(), [...fresh.headers.keys()].sort())
  assert.doesNotMatch((await s.box.mailTo(email, /You have an account/)).text ?? '', /#token=/)
  assert.equal((await s.auth('login', { email, password: 'another password' })).status, 401)
})

test('a wrong password, an account without a password and a missing account get the same answer in the same time', async () => {
  await s.account('timed@example.com')
  const { id, email: seeded } = await seeder(s.w.database, s.w.clock, s.w.ids).person(s.w.a.organization_id, 'member')
  await s.w.database.superuser.updateTable('person_credentials').set({ password_hash: null }).where('person_id', '=', id).execute()
  const kinds = { known: 'timed@example.com', unknown: 'nobody@example.com', without: seeded }
  const took: Record<string, number[]> = { known: [], unknown: [], without: [] }
  const seen = new Set<string>()
  // Alternates, so that load on the computer affects all cases alike.
  for (let n = 0; n < depth({ short: 20, long: 200 }); n++) {
    for (const [kind, email] of Object.entries(kinds)) {
      const started = performance.now()
      const answer = await s.auth('login', { email, password: 'not the password' })
      took[kind]?.push(performance.now() - started)
      const { request_id: _id, ...error } = answer.body.error
      seen.add(JSON.stringify([answer.status, error, [...answer.headers.keys()].sort()]))
    }
  }
  assert.equal(seen.size, 1)
  assert.match([...seen][0] ?? '', /invalid_credentials/)
  const median = (of: number[]) => of.sort((x, y) => x - y)[of.length / 2] ?? 0
  const [known, unknown, without] = Object.values(took).map(median) as [number, number, number]
  const apart = depth({ short: 2, long: 1.1 })
  for (const other of [unknown, without]) assert.ok(other > known / apart && other < known * apart, `${known} ${other} ms`)
})

test("a password's length, NUL characters and Unicode forms are checked before it is hashed", async () => {
  const email = 'words@example.com'
  const register = (password: string) => s.auth('register', { email, password })
  for (const bad of ['short', 'x'.repeat(257), 'with\u0000nul characters'])
    assert.deepEqual(refusal(await register(bad)), [422, 'validation_failed'])
  assert.deepEqual(refusal(await register('x'.repeat(10 << 20))), [413, 'payload_too_large'])
  await s.account(email, `${'é'.normalize('NFC')}${'x'.repeat(127)}`)
  assert.equal((await s.auth('login', { email, password: `${'é'.normalize('NFD')}${'x'.repeat(127)}` })).status, 200)
})

test('a commonly guessed password is refused wherever one is set, and the link of the request stays valid', async () => {
  const common = async (route: string, body: object, as: string | null = null) => {
    const answer = await s.auth(route, body, as)
    assert.equal(answer.status, 422, JSON.stringify(answer.body))
    return answer.body.error.details.issues[0].path
  }
  assert.equal(await common('register', { email: 'common@example.com', password: 'Password123' }), 'password')
  assert.equal(await common('register', { email: 'common@example.com', password: 'Common@example.com' }), 'password')
  await s.account('common@example.com')
  const as = await s.signIn('common@example.com')
  assert.equal(await common('password/change', { current_password: PASSPHRASE, new_password: 'qwertyuiop' }, as), 'new_password')
  await s.auth('password/reset/request', { email: 'common@example.com' })
  const token = await s.box.tokenTo('common@example.com', /Another password/)
  assert.equal(await common('password/reset/confirm', { token, new_password: '1234567890' }), 'new_password')
  assert.equal((await s.auth('password/reset/confirm', { token, new_password: 'another password of mine' })).status, 204)
})

test('a step-up, a password change and a sign-out end the token of their request at once', async () => {
  const email = 'rotates@example.com'
  await s.account(email)
  const first = await s.signIn(email)
  assert.deepEqual(refusal(await s.auth('step-up', { password: 'not it at all' }, first)), [401, 'invalid_credentials'])
  const stepped = await s.auth('step-up', { password: PASSPHRASE }, first)
  const second = stepped.body.session_token as string
  assert.deepEqual(refusal(await me(first)), UNAUTHENTICATED)
  assert.equal((await me(second)).status, 200)
  const other = await s.signIn(email)
  const wrong = await s.auth('password/change', { current_password: 'not it at all', new_password: 'the next password' }, second)
  assert.deepEqual(refusal(wrong), [401, 'invalid_credentials'])
  const changed = await s.auth('password/change', { current_password: PASSPHRASE, new_password: 'the next password' }, second)
  const third = changed.body.session_token as string
  assert.deepEqual([changed.status, refusal(await me(second))], [200, UNAUTHENTICATED])
  assert.deepEqual([(await me(third)).status, (await me(other)).status], [200, 200])
  await s.box.mailTo(email, /password for Berth was changed/)
  const last = await s.auth(
    'password/change',
    { current_password: 'the next password', new_password: PASSPHRASE, end_other_sessions: true },
    third,
  )
  assert.deepEqual([last.status, refusal(await me(other))], [200, UNAUTHENTICATED])
  const fourth = last.body.session_token as string
  assert.equal((await s.auth('logout', undefined, fourth)).status, 204)
  assert.deepEqual(refusal(await me(fourth)), UNAUTHENTICATED)
  const [one, two] = [await s.signIn(email), await s.signIn(email)]
  assert.equal((await s.auth('logout-all', undefined, one)).status, 204)
  assert.deepEqual([refusal(await me(one)), refusal(await me(two))], [UNAUTHENTICATED, UNAUTHENTICATED])
})

test('of concurrent step-ups with one token, one succeeds', async () => {
  await s.account('race@example.com')
  const token = await s.signIn('race@example.com')
  const answers = await Promise.all(Array.from({ length: 10 }, () => s.auth('step-up', { password: PASSPHRASE }, token)))
  const tokens = answers.filter(({ status }) => status === 200).map(({ body }) => body.session_token as string)
  assert.equal(tokens.length, 1)
  assert.equal((await me(tokens[0] ?? '')).status, 200)
})

test('a link replaces a forgotten password once and ends every session; every address gets the same answer', async () => {
  const email = 'forgets@example.com'
  await s.account(email)
  const session = await s.signIn(email)
  const [known, unknown] = [
    await s.auth('password/reset/request', { email }),
    await s.auth('password/reset/request', { email: 'no@example.com' }),
  ]
  assert.deepEqual([known.status, known.body], [unknown.status, unknown.body])
  const token = await s.box.tokenTo(email, /Another password/)
  assert.deepEqual(refusal(await s.auth('verify-email', { token })), [400, 'token_invalid']) // this token was issued for another purpose
  const confirm = () => s.auth('password/reset/confirm', { token, new_password: 'found it again' })
  const answers = await Promise.all(Array.from({ length: 50 }, confirm))
  assert.deepEqual([answers.filter(({ status }) => status === 204).length, answers.filter(({ status }) => status === 400).length], [1, 49])
  assert.deepEqual(refusal(await me(session)), UNAUTHENTICATED)
  assert.equal((await s.auth('login', { email, password: PASSPHRASE })).status, 401)
  assert.equal((await s.auth('login', { email, password: 'found it again' })).status, 200)
  assert.ok(!s.box.mails.some((mail) => mail.to?.[0]?.address === 'no@example.com'))
})

test('a newer link ends the previous one, a link expires, and a link works for one address alone', async () => {
  const email = 'links@example.com'
  await s.auth('register', { email, password: PASSPHRASE })
  const older = await s.box.tokenTo(email, /Verify/)
  const headers = { host: 'evil.test', 'x-forwarded-host': 'evil.test', 'content-type': 'application/json' }
  await s.w.post('/v1/auth/verify-email/resend', { email }, { as: null, headers })
  const arrived = () => s.box.mails.filter((mail) => mail.to?.[0]?.address === email)
  await until('the second mail arrives', 60_000, () => arrived().length === 2)
  const newer = await s.box.tokenTo(email, /Verify/)
  assert.notEqual(newer, older)
  assert.ok(arrived().every(({ text }) => text?.includes('http://api.test/') && !text.includes('evil.test')))
  assert.deepEqual(refusal(await s.auth('verify-email', { token: older })), [400, 'token_invalid'])
  assert.deepEqual(refusal(await at(DAY_MS + 1000, () => s.auth('verify-email', { token: newer }))), [400, 'token_invalid'])
  assert.equal((await s.auth('verify-email', { token: newer })).status, 204)
})

test('an address is changed by its link and a session of the same person, and the old address is notified', async () => {
  const [email, new_email] = ['moves@example.com', 'moved@example.com']
  await s.account(email)
  await s.account('other@example.com')
  const [session, stranger] = [await s.signIn(email), await s.signIn('other@example.com')]
  const late = await at(10 * 60_000 + 1000, () => s.auth('email/change', { new_email }, session))
  assert.deepEqual(refusal(late), [403, 'step_up_required'])
  assert.equal((await s.auth('email/change', { new_email: 'other@example.com' }, session)).status, 202)
  assert.equal((await s.auth('email/change', { new_email }, session)).status, 202)
  const token = await s.box.tokenTo(new_email, /Your new address/)
  assert.deepEqual(refusal(await s.auth('email/change/confirm', { token }, stranger)), [400, 'token_invalid'])
  const changed = await s.auth('email/change/confirm', { token }, session)
  assert.deepEqual([changed.status, changed.body], [200, { email: new_email }])
  await s.box.mailTo(email, /address for Berth was changed/)
  assert.ok(!s.box.mails.some((mail) => mail.to?.[0]?.address === 'other@example.com' && /new address/.test(mail.subject ?? '')))
  assert.equal((await s.auth('login', { email, password: PASSPHRASE })).status, 401)
  assert.equal((await s.auth('login', { email: new_email, password: PASSPHRASE })).status, 200)
})

test('sessions are listed with device and address, and one session ends another', async () => {
  const email = 'lists@example.com'
  await s.account(email)
  const named = await s.auth('login', { email, password: PASSPHRASE, device: 'the laptop' })
  const current = await s.signIn(email)
  const { body } = await s.w.get('/v1/auth/sessions', { as: current })
  assert.deepEqual(
    body.data.map((row: { device: string; address: string; is_current: boolean }) => [row.device, row.address, row.is_current]),
    [
      ['node', '127.0.0.1', true],
      ['the laptop', '127.0.0.1', false],
    ],
  )
  const laptop = `/v1/auth/sessions/${body.data[1].id}`
  for (let n = 0; n < 2; n++) assert.equal((await s.w.call('DELETE', laptop, { as: current })).status, 204)
  assert.deepEqual(refusal(await me(named.body.session_token)), UNAUTHENTICATED)
  assert.deepEqual(refusal(await s.w.call('DELETE', `/v1/auth/sessions/${s.w.ids.next()}`, { as: current })), [404, 'not_found'])
  assert.equal((await s.w.get('/v1/auth/sessions', { as: current })).body.data.length, 1)
})

test('a key and a malformed token are no credential of a session route', async () => {
  for (const as of [s.w.a.key, `sfu_${'x'.repeat(42)}`, `sfu_${'x'.repeat(44)}`, null])
    assert.deepEqual(refusal(await s.w.get('/v1/auth/session', { as })), UNAUTHENTICATED)
})

test('a step-up is valid for 10 minutes, and a sign-in counts as one', async () => {
  const email = 'fresh-steps@example.com'
  await s.account(email)
  const token = await s.signIn(email)
  const start = (ahead_ms: number) => at(ahead_ms, async () => (await s.auth('mfa/totp', undefined, token)).status)
  assert.deepEqual([await start(10 * 60_000 - 5000), await start(10 * 60_000 + 1000)], [201, 403])
})
