import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { ROLES, type Role } from '../../contract/access.ts'
import { LIMITS } from '../../contract/limits.ts'
import { until } from '../support/processes.ts'
import { PASSPHRASE, refusal, signInWorld, type SignInWorld } from './auth-support.ts'
import { seeder } from './support.ts'

let s: SignInWorld
let organization: string
before(async () => {
  s = await signInWorld({ registration: 'invitation' })
  organization = `/v1/organizations/${s.w.a.organization_id}`
})
after(() => s[Symbol.asyncDispose]())

const person = (role: Role, stepped_up = true) =>
  seeder(s.w.database, s.w.clock, s.w.ids).person(s.w.a.organization_id, role, { stepped_up })
const roleOf = async (id: string) =>
  (await s.w.database.superuser.selectFrom('memberships').select('role').where('person_id', '=', id).executeTakeFirst())?.role ?? null
const patch = (id: string, role: Role, as: string) => s.w.call('PATCH', `${organization}/members/${id}`, { as, body: { role } })
const remove = (id: string, as: string) => s.w.call('DELETE', `${organization}/members/${id}`, { as })

test('an invited colleague registers, accepts, and works with a key of the project', async () => {
  const owner = await person('owner')
  const email = 'colleague@example.com'
  const invited = await s.w.post(`${organization}/invitations`, { email: 'Colleague@Example.com', role: 'admin' }, { as: owner.token })
  assert.deepEqual([invited.status, invited.body.email, invited.body.role, 'token' in invited.body], [201, email, 'admin', false])
  const mail = await s.box.mailTo(email, /invited/)
  assert.ok(mail.text?.includes('http://api.test/invitation#token='))
  const invitation_token = await s.box.tokenTo(email, /invited/)
  assert.deepEqual(refusal(await s.auth('register', { email: 'else@example.com', password: PASSPHRASE, invitation_token })), [
    400,
    'token_invalid',
  ])
  assert.equal((await s.auth('register', { email, password: PASSPHRASE, invitation_token })).status, 202)
  const as = await s.signIn(email) // the token came by mail, so the address is verified
  assert.deepEqual((await s.w.get('/v1/me', { as })).body.memberships, [])
  const accepted = await s.w.post('/v1/invitations/accept', { token: invitation_token }, { as })
  assert.deepEqual([accepted.status, accepted.body.id, accepted.body.role], [200, s.w.a.organization_id, 'admin'])
  assert.deepEqual(refusal(await s.w.post('/v1/invitations/accept', { token: invitation_token }, { as })), [400, 'token_invalid'])
  const keys = `/v1/projects/${s.w.a.project_id}/api-keys`
  const made = await s.w.post(keys, { name: 'mine', tool_permissions: ['exec'] }, { as })
  assert.equal(made.status, 201)
  assert.match(made.body.api_key, /^sfk_[0-9a-f]{16}_[0-9a-f]{64}$/)
  const opened = await s.w.open('of-colleague', {}, { as: made.body.api_key })
  assert.equal(opened.status, 202)
  assert.equal((await s.w.get(`${keys}/${made.body.id}`, { as })).body.name, 'mine')
})

test('an invitation is bound to its address and valid for a week, and of concurrent accepts one succeeds', async () => {
  const owner = await person('owner')
  const invite = async (email: string, role: Role = 'member') =>
    s.w.post(`${organization}/invitations`, { email, role }, { as: owner.token })
  const [right, wrong] = [await person('billing'), await person('billing')]
  for (const each of [right, wrong]) assert.equal((await remove(each.id, owner.token)).status, 204)
  await invite(right.email)
  const token = await s.box.tokenTo(right.email, /invited/)
  const accept = (as: string) => s.w.post('/v1/invitations/accept', { token }, { as })
  assert.deepEqual(refusal(await accept(wrong.token)), [400, 'token_invalid'])
  const answers = await Promise.all(Array.from({ length: 50 }, () => accept(right.token)))
  assert.equal(answers.filter(({ status }) => status === 200).length, 1)
  assert.equal(await roleOf(right.id), 'member')
  assert.deepEqual(refusal(await invite(right.email)), [409, 'conflict']) // already a member
  await invite(wrong.email)
  const late = await s.box.tokenTo(wrong.email, /invited/)
  s.w.clock.ahead_ms = (LIMITS.organization.invitation_days * 24 * 3600 + 1) * 1000
  const too_late = await s.w.post('/v1/invitations/accept', { token: late }, { as: wrong.token })
  const again = await s.w.post(`${organization}/invitations`, { email: wrong.email, role: 'member' }, { as: owner.token })
  s.w.clock.ahead_ms = 0
  assert.deepEqual([refusal(too_late), again.status], [[400, 'token_invalid'], 201])
})

test('an address has one open invitation, which can be sent again after a minute with a new link, and can be revoked', async () => {
  const owner = await person('owner')
  const email = 'waits@example.com'
  const create = () => s.w.post(`${organization}/invitations`, { email, role: 'member' }, { as: owner.token })
  const answers = await Promise.all(Array.from({ length: 10 }, create))
  const refused = answers.filter(({ status }) => status !== 201)
  assert.deepEqual([refused.length, refusal(refused[0] ?? (await create()))], [9, [409, 'conflict/concurrent_invitation']])
  const id = answers.find(({ status }) => status === 201)?.body.id as string
  const first = await s.box.tokenTo(email, /invited/)
  const path = `${organization}/invitations/${id}`
  const resend = () => s.w.post(`${path}/resend`, undefined, { as: owner.token })
  assert.deepEqual(refusal(await resend()), [429, 'rate_limited'])
  s.w.clock.ahead_ms = 61_000
  const resent = await resend()
  const count = () => s.box.mails.filter((mail) => mail.to?.[0]?.address === email).length
  await until('the second mail arrives', 60_000, () => count() === 2)
  s.w.clock.ahead_ms = 0
  const second = await s.box.tokenTo(email, /invited/)
  assert.deepEqual([resent.status, first === second], [200, false])
  const register = (invitation_token: string) => s.auth('register', { email, password: PASSPHRASE, invitation_token })
  assert.deepEqual(refusal(await register(first)), [400, 'token_invalid'])
  for (let n = 0; n < 2; n++) assert.equal((await s.w.call('DELETE', path, { as: owner.token })).status, 204)
  assert.deepEqual(refusal(await register(second)), [400, 'token_invalid'])
  assert.deepEqual(refusal(await resend()), [404, 'not_found'])
  const { body } = await s.w.get(`${organization}/invitations?limit=200`, { as: owner.token })
  assert.ok(body.data.every((row: { id: string }) => row.id !== id))
})

test('admins grant and revoke every role but owner; owners grant owner after a password check', async () => {
  const [owner, admin, stale] = [await person('owner'), await person('admin'), await person('owner', false)]
  for (const role of ROLES) {
    const { id, email } = await person('member')
    const [by_admin, by_stale] = [await patch(id, role, admin.token), await patch(id, role, stale.token)]
    if (role === 'owner') {
      assert.deepEqual([refusal(by_admin), refusal(by_stale)], [[403, 'forbidden'], [403, 'step_up_required']]) // prettier-ignore
      assert.equal((await patch(id, role, owner.token)).status, 200)
      assert.deepEqual(refusal(await remove(id, admin.token)), [403, 'forbidden'])
      assert.deepEqual(refusal(await patch(id, 'member', admin.token)), [403, 'forbidden'])
      const invite = (as: string) => s.w.post(`${organization}/invitations`, { email: `to-${email}`, role }, { as })
      assert.deepEqual([refusal(await invite(admin.token)), refusal(await invite(stale.token))], [[403, 'forbidden'], [403, 'step_up_required']]) // prettier-ignore
    } else assert.deepEqual([by_admin.status, by_admin.body.role, by_stale.status], [200, role, 200])
    assert.equal(await roleOf(id), role)
  }
  const [member, other] = [await person('member'), await person('member')]
  assert.deepEqual(refusal(await remove(other.id, member.token)), [403, 'forbidden'])
  assert.equal((await remove(member.id, member.token)).status, 204)
  assert.deepEqual(refusal(await s.w.get(`${organization}/members`, { as: member.token })), [404, 'not_found'])
  assert.deepEqual(refusal(await remove(member.id, owner.token)), [404, 'not_found'])
})

test('an organization keeps an owner: two owners who remove, demote or leave at once leave one', async () => {
  const made = async (name: string) => {
    const [one, two] = [await person('member'), await person('member')]
    const { body } = await s.w.post('/v1/organizations', { name }, { as: one.token })
    const owners = { organization_id: body.id as string, person_id: two.id, role: 'owner' as const, created_at: s.w.clock.now() }
    await s.w.database.superuser.insertInto('memberships').values(owners).execute()
    const path = `/v1/organizations/${body.id}/members`
    const ownersLeft = async () =>
      (await s.w.database.superuser.selectFrom('memberships').select('person_id').where('organization_id', '=', body.id).where('role', '=', 'owner').execute()).length // prettier-ignore
    return { one, two, path, ownersLeft }
  }
  for (let n = 0; n < 5; n++) {
    const { one, two, path, ownersLeft } = await made(`Remove ${n}`)
    const answers = await Promise.all([
      s.w.call('DELETE', `${path}/${two.id}`, { as: one.token }),
      s.w.call('DELETE', `${path}/${one.id}`, { as: two.token }),
    ])
    assert.deepEqual([answers.map(({ status }) => status).sort(), await ownersLeft()], [[204, 404], 1])
    const leave = await made(`Leave ${n}`)
    const left = await Promise.all([leave.one, leave.two].map(({ id, token }) => s.w.call('DELETE', `${leave.path}/${id}`, { as: token })))
    assert.deepEqual([left.map(refusal).map(String).sort(), await leave.ownersLeft()], [['204,', '409,conflict/last_owner'], 1])
    const demote = await made(`Demote ${n}`)
    const body = { role: 'member' }
    const demoted = await Promise.all([
      s.w.call('PATCH', `${demote.path}/${demote.two.id}`, { as: demote.one.token, body }),
      s.w.call('PATCH', `${demote.path}/${demote.one.id}`, { as: demote.two.token, body }),
    ])
    assert.deepEqual([demoted.map(({ status }) => status).sort(), await demote.ownersLeft()], [[200, 403], 1])
  }
  const alone = await person('member')
  const { body } = await s.w.post('/v1/organizations', { name: 'Alone' }, { as: alone.token })
  const as = alone.token
  const own = `/v1/organizations/${body.id}/members/${alone.id}`
  assert.deepEqual(refusal(await s.w.call('PATCH', own, { as, body: { role: 'admin' } })), [409, 'conflict/last_owner'])
})

test('organizations and projects are created and renamed, and a slug is unique', async () => {
  const { token: as } = await person('member')
  const made = await s.w.post('/v1/organizations', { name: 'Ünïcode Inc.', slug: 'unicode-inc' }, { as })
  assert.deepEqual([made.status, made.body.slug, made.body.role], [201, 'unicode-inc', 'owner'])
  assert.deepEqual(refusal(await s.w.post('/v1/organizations', { name: 'x', slug: 'unicode-inc' }, { as })), [409, 'conflict/name_taken'])
  assert.match((await s.w.post('/v1/organizations', { name: 'Ünïcode Inc.' }, { as })).body.slug, /^u-ni-code-inc-[0-9a-f]{8}$/)
  assert.match((await s.w.post('/v1/organizations', { name: '組織' }, { as })).body.slug, /^[0-9a-f]{8}$/)
  const path = `/v1/organizations/${made.body.id}`
  assert.equal((await s.w.call('PATCH', path, { as, body: { name: 'Another' } })).body.name, 'Another')
  assert.deepEqual((await s.w.get(path, { as })).body, { ...made.body, name: 'Another' })
  const project = await s.w.post(`${path}/projects`, { name: 'First', slug: 'first' }, { as })
  assert.deepEqual([project.status, refusal(await s.w.post(`${path}/projects`, { name: 'y', slug: 'first' }, { as }))], [201, [409, 'conflict/name_taken']]) // prettier-ignore
  assert.equal((await s.w.call('PATCH', `/v1/projects/${project.body.id}`, { as, body: { name: 'Second' } })).body.name, 'Second')
  for (const name of ['', 'x'.repeat(101), 'a\r\nBcc: all@example.com', 'a\u0000'])
    assert.deepEqual(refusal(await s.w.post('/v1/organizations', { name }, { as })), [422, 'validation_failed'])
  const opened = await s.w.open('of-a-person', { project_id: project.body.id }, { as })
  assert.equal(opened.status, 202)
})

test('the organizations of a person, and invitations, projects and keys of an organization, are bounded', async () => {
  const { token: as, id } = await person('member')
  const many = Array.from({ length: LIMITS.organization.owned_per_person_max + 5 }, (_, n) =>
    s.w.post('/v1/organizations', { name: `Many ${n}` }, { as }),
  )
  const answers = await Promise.all(many)
  const refused = answers.filter(({ status }) => status === 403)
  assert.deepEqual([refused.length, refusal(refused[0] ?? answers[0]!)], [5, [403, 'quota_exceeded']]) // oxlint-disable-line typescript/no-non-null-assertion
  const organization_id = answers.find(({ status }) => status === 201)?.body.id as string
  const { superuser: db } = s.w.database
  const now = s.w.clock.now()
  const { invitations_max, projects_max, keys_per_project_max } = LIMITS.organization
  const invitation = (n: number) => ({ id: s.w.ids.next(), organization_id, email: `${n}@example.com`, role: 'member' as const, invited_by: id, token_sha256: null, created_at: now, expires_at: new Date(now.getTime() + 3600_000), accepted_at: null, revoked_at: null }) // prettier-ignore
  await db.insertInto('invitations').values(Array.from({ length: invitations_max }, (_, n) => invitation(n))).execute() // prettier-ignore
  const project = (n: number) => ({ id: s.w.ids.next(), organization_id, name: `${n}`, slug: `p${n}`, created_at: now })
  const projects = Array.from({ length: projects_max }, (_, n) => project(n))
  await db.insertInto('projects').values(projects).execute()
  const project_id = projects[0]?.id ?? ''
  const key = (n: number) => ({ id: s.w.ids.next(), key_id: `many${n}`, secret_sha256: Buffer.alloc(32), organization_id, project_id, tool_permissions: [], created_at: now, expires_at: null, revoked_at: null, tools_changed_at: null }) // prettier-ignore
  await db.insertInto('api_keys').values(Array.from({ length: keys_per_project_max }, (_, n) => key(n))).execute() // prettier-ignore
  const { per_project_max, per_organization_max } = LIMITS.secret
  const secret = (n: number) => ({ id: s.w.ids.next(), organization_id, project_id: projects[Math.floor(n / per_project_max)]?.id ?? '', name: `S${n}`, allowed_tools: [], version: 1, created_at: now, updated_at: now }) // prettier-ignore
  await db.insertInto('secrets').values(Array.from({ length: per_organization_max }, (_, n) => secret(n))).execute() // prettier-ignore
  const path = `/v1/organizations/${organization_id}`
  for (const [at, body, limit] of [
    [`${path}/invitations`, { email: 'more@example.com', role: 'member' }, 'invitations'],
    [`${path}/projects`, { name: 'more' }, 'projects'],
    [`/v1/projects/${project_id}/api-keys`, { tool_permissions: ['exec'] }, 'api_keys'],
    [`/v1/projects/${project_id}/secrets`, { name: 'MORE', value: 'v' }, 'secrets_per_project'],
    [`${path}/secrets`, { name: 'MORE', value: 'v' }, 'secrets_per_organization'],
  ] as const) {
    const beyond = await s.w.post(at, body, { as })
    assert.deepEqual([refusal(beyond), beyond.body.error?.details?.limit], [[403, 'quota_exceeded'], limit])
  }
})

test('a key is listed with its last use, renamed, narrowed, expired and revoked', async () => {
  const { token: as } = await person('admin')
  const keys = `/v1/projects/${s.w.a2.project_id}/api-keys`
  const unfresh = await person('admin', false)
  const create = (body: object, who = as) => s.w.post(keys, { tool_permissions: ['exec', 'files'], ...body }, { as: who })
  assert.deepEqual(refusal(await create({}, unfresh.token)), [403, 'step_up_required'])
  const made = await create({ name: 'first' })
  const { api_key, id, key_id } = made.body
  assert.ok(api_key.startsWith(`sfk_${key_id}_`))
  const listed = async () => (await s.w.get(keys, { as })).body.data.find((row: { id: string }) => row.id === id)
  const before = await listed()
  assert.deepEqual([before.last_used_at, 'api_key' in before], [null, false])
  assert.equal((await s.w.get('/v1/me', { as: api_key })).status, 200)
  assert.ok(Math.abs(Date.parse((await listed()).last_used_at) - Date.now()) < 60_000)
  const change = (body: object) => s.w.call('PATCH', `${keys}/${id}`, { as, body })
  assert.deepEqual((await change({ name: 'second', tool_permissions: ['exec'] })).body.tool_permissions, ['exec'])
  // The change notifies each process, which then drops the cached facts of the key.
  await until('it permits less', 10_000, async () => (await s.w.get('/v1/me', { as: api_key })).body.api_key.tool_permissions.length === 1)
  for (const expires_at of ['2020-01-01T00:00:00Z', 'soon'])
    assert.deepEqual(refusal(await change({ expires_at })), [422, 'validation_failed'])
  const ends = new Date(Date.now() + 3600_000).toISOString()
  assert.equal((await change({ expires_at: ends })).body.expires_at, ends)
  assert.equal((await change({ expires_at: null })).body.expires_at, null)
  for (let n = 0; n < 2; n++) assert.equal((await s.w.call('DELETE', `${keys}/${id}`, { as })).status, 204)
  await until('it is good no more', 10_000, async () => refusal(await s.w.get('/v1/me', { as: api_key }))[0] === 401)
  assert.deepEqual(refusal(await change({ name: 'third' })), [409, 'conflict'])
  assert.equal(await listed(), undefined)
  const all = (await s.w.get(`${keys}?include_revoked=true`, { as })).body.data.find((row: { id: string }) => row.id === id)
  assert.ok(all.revoked_at !== null)
})
