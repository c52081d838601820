import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import { decodeJwt } from 'jose'
import { TOOLS } from '../../contract/route.ts'
import { admin as adminOn } from '../support/admin.ts'
import { until } from '../support/processes.ts'
import { seeder, world, type Answer, type World } from './support.ts'

let w: World
let seeds: ReturnType<typeof seeder>
before(async () => {
  w = await world()
  seeds = seeder(w.database, w.clock, w.ids)
  // A revoking command would wait 45 s for a cell that was seen lately, and no process serves this cell.
  await w.database.superuser
    .updateTable('cells')
    .set({ seen_at: new Date(0) })
    .execute()
})
after(() => w[Symbol.asyncDispose]())

const DAY_MS = 24 * 3600 * 1000
const cellSeenAt = (seen_at: Date) => w.database.superuser.updateTable('cells').set({ seen_at }).execute()
const admin = async (...args: string[]) => {
  await cellSeenAt(new Date(0))
  try {
    return await adminOn(w.database.url, ...args)
  } finally {
    await cellSeenAt(w.clock.now())
  }
}
const refusal = ({ status, body }: Answer) => [status, body.error.code]
const ids = ({ body }: Answer) => body.data.map((row: { id: string }) => row.id)
const at = async <T>(ahead_ms: number, act: () => Promise<T>): Promise<T> => {
  w.clock.ahead_ms = ahead_ms
  try {
    return await act()
  } finally {
    w.clock.ahead_ms = 0
  }
}

test('a person made by admin signs in with a session made by admin, which can be revoked', async () => {
  const email = 'ada@example.com'
  const person_id = await admin('person', 'create', '--email', email, '--organization', 'a', '--role', 'member', '--name', 'Ada')
  const [first, second] = [await admin('session', 'create', '--email', email), await admin('session', 'create', '--email', email)]
  assert.match(first, /^sfu_[A-Za-z0-9_-]{43}$/)
  const { status, body } = await w.get('/v1/me', { as: first })
  assert.deepEqual(
    [status, body],
    [
      200,
      {
        type: 'user',
        user: { id: person_id, email, email_verified: true, display_name: 'Ada', mfa_enabled: false },
        memberships: [{ organization_id: w.a.organization_id, organization_name: 'a', organization_slug: 'a', role: 'member' }],
        api_key: null,
      },
    ],
  )
  const listed = JSON.parse(await admin('session', 'list', '--email', email, '--json')) as { id: string; revoked_at: null }[]
  assert.equal(listed.length, 2)
  await admin('session', 'revoke', '--email', email, '--id', listed[1]?.id ?? '')
  assert.deepEqual(refusal(await w.get('/v1/me', { as: first })), [401, 'unauthenticated'])
  assert.equal((await w.get('/v1/me', { as: second })).status, 200)
  await admin('session', 'revoke', '--email', email)
  assert.deepEqual(refusal(await w.get('/v1/me', { as: second })), [401, 'unauthenticated'])
  await assert.rejects(admin('session', 'create', '--email', email, '--expires-in-days', '91'))
})

test("a person sets a password by an admin's link, once, and signs in", async () => {
  const email = 'Linked@Example.com'
  await admin('person', 'create', '--email', email, '--organization', 'a', '--role', 'owner')
  const link = await admin('person', 'link', '--email', email)
  const token = /\/reset-password#token=(\S+)$/.exec(link)?.[1]
  const confirm = () => w.post('/v1/auth/password/reset/confirm', { token, new_password: 'a long enough password' }, { as: null })
  assert.deepEqual([(await confirm()).status, refusal(await confirm())], [204, [400, 'token_invalid']])
  const signed = await w.post('/v1/auth/login', { email, password: 'a long enough password' }, { as: null })
  assert.deepEqual([signed.status, signed.body.email_verified], [200, true])
  await assert.rejects(admin('person', 'link', '--email', 'nobody@example.com'))
})

test('a session lives 30 days from its last use and at most 90', async () => {
  const { token } = await seeds.person(w.a.organization_id, 'member')
  const status = (days: number) => at(days * DAY_MS, async () => (await w.get('/v1/me', { as: token })).status)
  assert.deepEqual([await status(29.9), await status(59.8), await status(89.7), await status(90.1)], [200, 200, 200, 401])
  const idle = await seeds.person(w.a.organization_id, 'member')
  assert.equal(await at(30.1 * DAY_MS, async () => (await w.get('/v1/me', { as: idle.token })).status), 401)
})

test('a session that waits for its second factor is 403 mfa_required everywhere, an unverified address 403 email_unverified', async () => {
  const person = await seeds.person(w.a.organization_id, 'owner')
  const sessions = w.database.superuser.updateTable('person_sessions').where('person_id', '=', person.id)
  await sessions.set({ mfa_pending: true }).execute()
  for (const path of ['/v1/me', '/v1/organizations', '/v1/workspaces', `/v1/operations/${w.ids.next()}`])
    assert.deepEqual(refusal(await w.get(path, { as: person.token })), [403, 'mfa_required'], path)
  await sessions.set({ mfa_pending: false }).execute()
  assert.equal((await w.get('/v1/me', { as: person.token })).status, 200)
  const unverified = await seeds.person(w.a.organization_id, 'owner', { email_verified: false })
  assert.deepEqual(refusal(await w.get('/v1/workspaces', { as: unverified.token })), [403, 'email_unverified'])
})

test("a person's open must name a project: without one it is 422, with another organization's 404", async () => {
  const { token: as } = await seeds.person(w.a.organization_id, 'member')
  const none = await w.open('person', {}, { as })
  assert.deepEqual([refusal(none), none.body.error.details.issues[0].path], [[422, 'validation_failed'], 'project_id'])
  for (const project_id of [w.b.project_id, w.ids.next()])
    assert.deepEqual(refusal(await w.open('person', { project_id }, { as })), [404, 'not_found'])
  const opened = await w.open('person', { project_id: w.a2.project_id }, { as })
  assert.deepEqual([opened.status, (await w.get(`/v1/workspaces/${opened.body.workspace.id}`, { as: w.a2.key })).status], [202, 200])
  assert.deepEqual(refusal(await w.open('person', { project_id: w.a.project_id }, { as })), [404, 'not_found']) // the key belongs to another project
  const own = await w.open('own-project', { project_id: w.a.project_id })
  assert.deepEqual([own.status, refusal(await w.open('x', { project_id: w.a2.project_id }))], [202, [404, 'not_found']]) // with an API key
})

test('a person sees all organizations, projects and workspaces of their memberships, and no others', async () => {
  const person = await seeds.person(w.a.organization_id, 'admin')
  const membership = { organization_id: w.b.organization_id, person_id: person.id, role: 'billing' as const, created_at: w.clock.now() }
  await w.database.superuser.insertInto('memberships').values(membership).execute()
  const as = person.token
  const [in_a, in_a2, in_b] = [
    await w.open('see-a'),
    await w.open('see-a2', {}, { as: w.a2.key }),
    await w.open('see-b', {}, { as: w.b.key }),
  ]
  const all = [in_b, in_a2, in_a].map(({ body }) => body.workspace.id as string)
  assert.deepEqual(ids(await w.get('/v1/workspaces?key_prefix=see-', { as })), all)
  assert.deepEqual(ids(await w.get(`/v1/workspaces?key_prefix=see-&organization_id=${w.a.organization_id}`, { as })), all.slice(1))
  assert.deepEqual(ids(await w.get(`/v1/workspaces?key_prefix=see-&project_id=${w.a2.project_id}`, { as })), all.slice(1, 2))
  assert.deepEqual(ids(await w.get(`/v1/organizations/${w.b.organization_id}/workspaces?key_prefix=see-`, { as })), all.slice(0, 1))
  const organizations = (await w.get('/v1/organizations', { as })).body.data
  assert.deepEqual(
    organizations.map((row: { id: string; role: string }) => [row.id, row.role]),
    [
      [w.b.organization_id, 'billing'],
      [w.a.organization_id, 'admin'],
    ],
  )
  const page = await w.get('/v1/organizations?limit=1', { as })
  assert.deepEqual(ids(await w.get(`/v1/organizations?limit=1&cursor=${page.body.next_cursor}`, { as })), [w.a.organization_id])
  assert.deepEqual(ids(await w.get(`/v1/organizations/${w.a.organization_id}/projects`, { as })), [w.a2.project_id, w.a.project_id])
  const stranger = await seeds.person(w.b.organization_id, 'owner')
  assert.deepEqual(ids(await w.get('/v1/workspaces?key_prefix=see-', { as: stranger.token })), all.slice(0, 1))
  for (const path of [`organizations/${w.a.organization_id}`, `projects/${w.a.project_id}`, `workspaces/${all[1]}`])
    assert.deepEqual(refusal(await w.get(`/v1/${path}`, { as: stranger.token })), [404, 'not_found'], path)
})

test('owner, admin and member have all six tools; billing reads, and changes nothing', async () => {
  const id = await w.running('roles')
  for (const role of ['owner', 'admin', 'member'] as const) {
    const { id: sub, token: as } = await seeds.person(w.a.organization_id, role)
    const minted = await w.post(`/v1/workspaces/${id}/tool-tokens`, {}, { as })
    assert.deepEqual([minted.status, minted.body.tools], [201, [...TOOLS]], role)
    const claims = decodeJwt(minted.body.token)
    assert.deepEqual([claims['pty'], claims.sub, claims['org'], claims['prj']], ['user', sub, w.a.organization_id, w.a.project_id])
  }
  const { token: as } = await seeds.person(w.a.organization_id, 'billing')
  assert.equal((await w.get(`/v1/workspaces/${id}`, { as })).status, 200)
  const before = (await w.get(`/v1/workspaces/${id}`)).body
  for (const [method, path, body] of [
    ['POST', `/v1/workspaces/${id}/tool-tokens`, {}],
    ['POST', `/v1/workspaces/${id}/suspend`, undefined],
    ['POST', `/v1/workspaces/${id}/fork`, { key: 'roles-fork' }],
    ['POST', `/v1/workspaces/${id}/suspend-when-idle`, { after_seconds: 30 }],
    ['PUT', `/v1/workspaces/${id}/idle-policy`, { idle_policy: 'never' }],
    ['DELETE', `/v1/workspaces/${id}`, undefined],
    ['POST', '/v1/workspaces/open', { key: 'roles', template: 'base', project_id: w.a.project_id }],
  ] as const)
    assert.deepEqual(refusal(await w.call(method, path, { as, body })), [403, 'forbidden'], path)
  assert.deepEqual((await w.get(`/v1/workspaces/${id}`)).body, before)
  const asked = await w.post(`/v1/workspaces/${id}/tool-tokens`, { tools: ['exec'] }, { as })
  assert.deepEqual(asked.body.error.details, { denied_tools: ['exec'], permitted_tools: [] })
})

test('a repeat respects lost rights: no view for a former member, and no token with a removed tool', async () => {
  const headers = { 'idempotency-key': 'left' }
  const person = await seeds.person(w.a.organization_id, 'member')
  const by_person = () => w.open('left', { project_id: w.a.project_id, tools: ['exec'] }, { as: person.token, headers })
  assert.equal((await by_person()).status, 202)
  await w.database.superuser.deleteFrom('memberships').where('person_id', '=', person.id).execute()
  assert.deepEqual(refusal(await by_person()), [404, 'not_found'])

  const { key, key_row_id } = await seeds.key(w.a.organization_id, w.a.project_id, ['exec', 'git'])
  const by_key = () => w.open('narrow', { tools: ['git'] }, { as: key, headers: { ...headers, prefer: 'wait=5' } })
  const id = await w.running('narrow')
  assert.deepEqual((await by_key()).body.tool_token.tools, ['git'])
  await w.database.superuser
    .updateTable('api_keys')
    .set({ tool_permissions: ['exec'] })
    .where('id', '=', key_row_id)
    .execute()
  const tools = async () => (await w.get('/v1/me', { as: key })).body.api_key.tool_permissions
  await until('the key has lost a tool', 30_000, async () => (await tools()).length === 1)
  const repeat = await by_key()
  assert.deepEqual([repeat.status, repeat.body.workspace.id, repeat.body.tool_token], [200, id, null])
})

test("an unknown id and a wrong secret get the same answer, and only a secret's hash is stored", async () => {
  const [, key_id = '', secret = ''] = w.a.key.split('_')
  const wrong = await w.get('/v1/me', { as: `sfk_${key_id}_${'0'.repeat(64)}` })
  const unknown = await w.get('/v1/me', { as: `sfk_${'0'.repeat(16)}_${secret}` })
  for (const { body } of [wrong, unknown]) delete body.error.request_id
  assert.deepEqual([wrong.status, wrong.body, wrong.headers.get('www-authenticate')], [401, unknown.body, 'Bearer'])
  const row = await w.database.superuser.selectFrom('api_keys').selectAll().where('key_id', '=', key_id).executeTakeFirstOrThrow()
  assert.deepEqual(row.secret_sha256, createHash('sha256').update(secret).digest())
  assert.doesNotMatch(JSON.stringify(row), new RegExp(secret))
  const person = await seeds.person(w.a.organization_id, 'member')
  const sessions = await w.database.superuser.selectFrom('person_sessions').selectAll().where('person_id', '=', person.id).execute()
  assert.deepEqual(
    sessions.map(({ token_sha256 }) => token_sha256),
    [createHash('sha256').update(person.token).digest()],
  )
  assert.doesNotMatch(JSON.stringify(sessions), new RegExp(person.token.slice(4)))
})

test('a tool token is no credential of the application API', async () => {
  const id = await w.running('audience')
  const { token } = (await w.post(`/v1/workspaces/${id}/tool-tokens`)).body
  assert.deepEqual(refusal(await w.get('/v1/me', { as: token })), [401, 'unauthenticated'])
})
