import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { PASSPHRASE, signInWorld, type SignInWorld } from '../api/auth-support.ts'
import { seeder } from '../api/support.ts'
import { type Chromium, openChromium } from '../support/chromium.ts'
import { until } from '../support/processes.ts'
import { patience } from '../support/patience.ts'

const WAIT_MS = 60_000
const TIMEOUT = { timeout: patience(180_000) }

let s: SignInWorld
let chromium: Chromium
before(async () => {
  s = await signInWorld({ registration: 'invitation' })
  chromium = await openChromium(process.env['BERTH_TEST_BROWSER_TEMPLATE'] ?? '')
})
after(async () => {
  await chromium.close()
  await s[Symbol.asyncDispose]()
})

async function fill(form: string, values: Record<string, string> = {}): Promise<void> {
  const script = (id: string, given: Record<string, string>) => {
    const page = (globalThis as unknown as { document: { getElementById(id: string): HtmlForm } }).document
    const element = page.getElementById(id)
    for (const [name, value] of Object.entries(given)) Object.assign(element.elements[name] ?? {}, { value })
    element.requestSubmit()
  }
  await shows(form)
  await chromium.evaluate(`(${script.toString()})(${JSON.stringify(form)}, ${JSON.stringify(values)})`)
}
interface HtmlForm {
  elements: Record<string, { value: string }>
  requestSubmit(): void
}

const shows = (id: string) =>
  until(`the page shows ${id}`, WAIT_MS, async () =>
    Boolean(await chromium.evaluate(`document.readyState === 'complete' && document.getElementById('${id}')?.checkVisibility() === true`)),
  )
const says = (what: RegExp) =>
  until(`the page says ${what}`, WAIT_MS, async () =>
    what.test(String(await chromium.evaluate(`document.getElementById('message')?.textContent`))),
  )

async function invited(email: string): Promise<string> {
  const seeds = seeder(s.w.database, s.w.clock, s.w.ids)
  const { token } = await seeds.person(s.w.a.organization_id, 'owner', { stepped_up: true })
  const { status } = await s.w.post(`/v1/organizations/${s.w.a.organization_id}/invitations`, { email, role: 'member' }, { as: token })
  assert.equal(status, 201)
  return s.box.tokenTo(email, /invited/)
}

test('an invited person creates an account on the page of the link and is a member', TIMEOUT, async () => {
  const email = 'new@example.com'
  await chromium.goto(`${s.w.base}/invitation#token=${await invited(email)}`)
  await fill('register', { email, display_name: 'New', password: PASSPHRASE })
  await says(/as member/)
  assert.equal(await chromium.evaluate('location.hash'), '')
  const { body } = await s.w.get('/v1/me', { as: await s.signIn(email) })
  assert.deepEqual([body.memberships[0].organization_id, body.memberships[0].role], [s.w.a.organization_id, 'member'])
})

test('a person with an account accepts by signing in, and a refusal is explained in words', TIMEOUT, async () => {
  const seeds = seeder(s.w.database, s.w.clock, s.w.ids)
  const email = 'known@example.com'
  const first = await invited(email)
  await s.auth('register', { email, password: PASSPHRASE, invitation_token: first })
  const { organization_id } = await seeds.tenant('second', await seeds.plan('site'))
  const { token: owner } = await seeds.person(organization_id, 'owner', { stepped_up: true })
  const mails = s.box.mails.length
  await s.w.post(`/v1/organizations/${organization_id}/invitations`, { email, role: 'admin' }, { as: owner })
  await until('the second invitation', WAIT_MS, () => s.box.mails.length > mails)
  await chromium.goto(`${s.w.base}/invitation?second#token=${await s.box.tokenTo(email, /invited/)}`)
  await fill('sign-in', { email, password: 'another password' })
  await says(/not right/)
  await fill('sign-in', { email, password: PASSPHRASE })
  await says(/as admin/)
})

test('a forgotten password is set on the page of the link', TIMEOUT, async () => {
  const email = 'new@example.com'
  await s.auth('password/reset/request', { email })
  await chromium.goto(`${s.w.base}/reset-password#token=${await s.box.tokenTo(email, /Another password/)}`)
  await fill('reset', { new_password: 'quite another password' })
  await says(/password is set/)
  await s.signIn(email, 'quite another password')
  await chromium.goto(`${s.w.base}/reset-password?again#token=used`)
  await fill('reset', { new_password: 'quite another password' })
  await says(/invalid|expired|used/)
  await chromium.goto(`${s.w.base}/reset-password`)
  await says(/not whole/)
})

test('pages load only from the service, run no inline code, and cannot be framed', async () => {
  for (const path of ['/', '/verify-email', '/change-email']) {
    const answer = await fetch(`${s.w.base}${path}`)
    assert.deepEqual([answer.status, answer.headers.get('content-type')], [200, 'text/html; charset=utf-8'])
    assert.match(answer.headers.get('content-security-policy') ?? '', /default-src 'none'; script-src 'self'.*frame-ancestors 'none'/)
    assert.doesNotMatch(await answer.text(), /<script(?![^>]*src=)|\son\w+=|style=/)
  }
})
