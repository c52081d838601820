import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openPasswords, type PasswordClient } from '../../service/api/access/auth/passwords.ts'
import { createSignInLimiter } from '../../service/api/access/auth/sign-in-bounds.ts'
import { LIMITS } from '../../contract/limits.ts'
import { PASSPHRASE, refusal, signInWorld } from './auth-support.ts'
import { NO_BOUNDS } from './people-seeds.ts'

const login = (s: Awaited<ReturnType<typeof signInWorld>>, email: string, password = 'not the password') =>
  s.auth('login', { email, password })
const clock = { now: () => new Date(0), monotonic_ms: () => 0 }
const wrong = async () => null

test('guesses at one account are bounded, whether it exists or not, and a right password costs nothing', async () => {
  await using s = await signInWorld({ sign_in_limits: { ...NO_BOUNDS, wrong_passwords_per_account_and_hour: 3 } })
  await s.account('bounded@example.com')
  for (let n = 0; n < 5; n++) assert.equal((await login(s, 'bounded@example.com', PASSPHRASE)).status, 200)
  for (const email of ['bounded@example.com', 'nobody@example.com']) {
    for (let n = 0; n < 3; n++) assert.deepEqual(refusal(await login(s, email)), [401, 'invalid_credentials'])
    const refused = await login(s, email.toUpperCase())
    assert.deepEqual([refusal(refused), Number(refused.headers.get('retry-after')) > 0], [[429, 'rate_limited'], true])
  }
  assert.equal((await login(s, 'another@example.com')).status, 401)
})

test('guesses from one network address, and of all callers together, are bounded over all accounts', async () => {
  const bounds = createSignInLimiter(clock, { ...NO_BOUNDS, wrong_passwords_per_source_and_minute: 3, wrong_passwords_per_minute: 5 })
  const guess = (n: number, address: string) =>
    bounds.guess(`sprayed-${n}@example.com`, address, wrong).then(
      () => 'judged',
      (error: unknown) => (error as { code: string }).code,
    )
  const from = async (address: string) => [
    await guess(1, address),
    await guess(2, address),
    await guess(3, address),
    await guess(4, address),
  ]
  assert.deepEqual(await from('192.0.2.1'), ['judged', 'judged', 'judged', 'rate_limited'])
  assert.deepEqual(await from('192.0.2.2'), ['judged', 'judged', 'rate_limited', 'rate_limited'])
  const many = createSignInLimiter(clock)
  const at_once = await Promise.allSettled(Array.from({ length: 200 }, () => many.guess('one@example.com', '192.0.2.1', wrong)))
  assert.equal(at_once.filter(({ status }) => status === 'fulfilled').length, LIMITS.sign_in.wrong_passwords_per_account_and_hour)
})

test('at the global limit of guesses, recently used accounts and addresses still sign in, and sessions step up', async () => {
  const bounds = createSignInLimiter(clock, { ...NO_BOUNDS, wrong_passwords_per_minute: 2, wrong_passwords_per_session_and_hour: 1 })
  const right = async () => 'the account'
  await bounds.guess('ada@example.com', '192.0.2.1', right)
  for (const n of [1, 2]) await bounds.guess(`sprayed-${n}@example.com`, '192.0.2.9', wrong)
  await assert.rejects(bounds.guess('bob@example.com', '192.0.2.8', right), { code: 'rate_limited' })
  assert.equal(await bounds.guess('ada@example.com', '198.51.100.1', right), 'the account')
  assert.equal(await bounds.guess('carol@example.com', '192.0.2.1', right), 'the account')
  assert.equal(await bounds.guessInSession('session', right), 'the account')
  assert.equal(await bounds.guessInSession('session', wrong), null)
  await assert.rejects(bounds.guessInSession('session', right), { code: 'rate_limited' })
})

test('guesses from some addresses delay no other address and no session', async () => {
  const passwords = openPasswords(1)
  let judged = 0
  const guess = (address: string) => passwords.matches(null, 'a guess', { address }).then(() => (judged += 1))
  const guesses = ['192.0.2.1', '192.0.2.2', '192.0.2.3'].flatMap((address) => Array.from({ length: 8 }, () => guess(address)))
  const before = (asker: PasswordClient) => passwords.matches(null, PASSPHRASE, asker).then(() => judged)
  const [person, session] = await Promise.all([before({ address: '198.51.100.1' }), before({ session_id: 'one' })])
  assert.ok(person <= 6 && session <= 6, `${person} and ${session} guesses were judged before`)
  await Promise.all(guesses)
})

test('unauthenticated mail requests are bounded per recipient and per address', async () => {
  await using s = await signInWorld({ sign_in_limits: { ...NO_BOUNDS, mails_per_address_and_hour: 2, mails_per_source_and_hour: 5 } })
  const ask = (route: string, email: string) => s.auth(route, { email, ...(route === 'register' ? { password: PASSPHRASE } : {}) })
  for (const route of ['password/reset/request', 'verify-email/resend']) assert.equal((await ask(route, 'a@example.com')).status, 202)
  assert.deepEqual(refusal(await ask('register', 'A@example.com')), [429, 'rate_limited'])
  for (const n of [1, 2, 3]) assert.equal((await ask('register', `b${n}@example.com`)).status, 202)
  assert.deepEqual(refusal(await ask('password/reset/request', 'c@example.com')), [429, 'rate_limited'])
})

test('fifty concurrent sign-ins are all answered within the memory of a few', async () => {
  await using s = await signInWorld()
  await s.account('parallel@example.com')
  const before = process.memoryUsage().rss
  let most = before
  const timer = setInterval(() => (most = Math.max(most, process.memoryUsage().rss)), 5)
  const answers = await Promise.all(Array.from({ length: 50 }, () => login(s, 'parallel@example.com', PASSPHRASE)))
  clearInterval(timer)
  assert.ok(answers.every(({ status }) => status === 200))
  assert.ok(most - before < 512 << 20, `${(most - before) >> 20} MiB more`)
})

test('registration is by invitation, for domains, or open', async () => {
  const register = (s: Awaited<ReturnType<typeof signInWorld>>, email: string, more = {}) =>
    s.auth('register', { email, password: PASSPHRASE, ...more })
  {
    await using s = await signInWorld({ registration: 'invitation' })
    assert.deepEqual(refusal(await register(s, 'a@example.com')), [403, 'forbidden'])
    assert.deepEqual(refusal(await register(s, 'a@example.com', { invitation_token: 'nonsense' })), [400, 'token_invalid'])
  }
  await using s = await signInWorld({ registration: ['example.com', 'example.org'] })
  assert.equal((await register(s, 'a@Example.ORG')).status, 202)
  for (const email of ['a@sub.example.com', 'a@example.com.evil.test'])
    assert.deepEqual(refusal(await register(s, email)), [403, 'forbidden'])
})
