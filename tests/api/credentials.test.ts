import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../support/processes.ts'
import { seeder, world, type Answer, type World } from './support.ts'

let w: World
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())

const code = (answer: Answer) => [answer.status, answer.body.error.code]

test('every invalid credential is 401 with the same answer', async () => {
  const [, key_id, secret] = w.a.key.split('_')
  const seeds = seeder(w.database, w.clock, w.ids)
  const expired = await seeds.key(w.a.organization_id, w.a.project_id, ['exec'], new Date(w.clock.now().getTime() - 1))
  const bad = [
    '',
    'sfk_',
    `sfk_${key_id}_${'0'.repeat(64)}`,
    `sfk_nope_${secret}`,
    `sfk_${key_id}`,
    `${w.a.key}x`,
    `sfu_${'a'.repeat(43)}`,
    'x'.repeat(4000),
    expired.key,
  ]
  const bodies = new Set<string>()
  for (const as of bad) {
    const answer = await w.get('/v1/me', { as })
    assert.deepEqual(code(answer), [401, 'unauthenticated'], as)
    bodies.add(answer.body.error.message)
  }
  assert.equal((await w.get('/v1/me', { as: null, headers: { authorization: `Basic ${w.a.key}` } })).status, 401)
  assert.equal((await w.get('/v1/me', { as: null, headers: { cookie: `session=${w.a.key}` } })).status, 401)
  assert.equal((await w.get('/v1/me', { as: null, headers: { authorization: `bearer ${w.a.key}` } })).status, 200)
  assert.equal(bodies.size, 1)
})

test('a revoked key and removed tool permissions take effect at once', async () => {
  const seeds = seeder(w.database, w.clock, w.ids)
  const { key, key_row_id } = await seeds.key(w.a.organization_id, w.a.project_id, ['exec', 'git'])
  assert.deepEqual((await w.get('/v1/me', { as: key })).body.api_key.tool_permissions, ['exec', 'git'])
  const keys = w.database.superuser.updateTable('api_keys').where('id', '=', key_row_id)
  await keys.set({ tool_permissions: ['exec'] }).execute()
  await until('the tools are narrowed', 9000, async () => (await w.get('/v1/me', { as: key })).body.api_key.tool_permissions.length === 1)
  await keys.set({ revoked_at: w.clock.now() }).execute()
  await until('the key is revoked', 9000, async () => (await w.get('/v1/me', { as: key })).status === 401)
})

test('me, organizations and projects show an API key only its own, and a person all of theirs', async () => {
  const me = (await w.get('/v1/me')).body
  assert.deepEqual([me.type, me.user, me.memberships, me.api_key.project_id], ['api_key', null, [], w.a.project_id])
  assert.equal(me.api_key.id, w.a.key_row_id)
  const person = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'admin')
  const theirs = (await w.get('/v1/me', { as: person.token })).body
  assert.deepEqual([theirs.type, theirs.user.id, theirs.memberships[0].role, theirs.api_key], ['user', person.id, 'admin', null])
  assert.deepEqual(
    (await w.get('/v1/organizations')).body.data.map((row: { id: string; role: null }) => [row.id, row.role]),
    [[w.a.organization_id, null]],
  )
  assert.equal((await w.get(`/v1/organizations/${w.a.organization_id}`, { as: person.token })).body.role, 'admin')
  const projects = `/v1/organizations/${w.a.organization_id}/projects`
  assert.deepEqual(
    (await w.get(projects)).body.data.map((row: { id: string }) => row.id),
    [w.a.project_id],
  )
  assert.deepEqual(
    (await w.get(projects, { as: person.token })).body.data.map((row: { id: string }) => row.id),
    [w.a2.project_id, w.a.project_id],
  )
  const unverified = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'owner', { email_verified: false })
  assert.deepEqual(code(await w.get('/v1/me', { as: unverified.token })), [403, 'email_unverified'])
})

test("a person's session ends 30 days after its last use", async () => {
  const person = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'member')
  const days = (n: number) => n * 24 * 3600 * 1000
  try {
    w.clock.ahead_ms = days(29)
    assert.equal((await w.get('/v1/me', { as: person.token })).status, 200)
    w.clock.ahead_ms = days(58)
    assert.equal((await w.get('/v1/me', { as: person.token })).status, 200)
    w.clock.ahead_ms = days(89)
    assert.equal((await w.get('/v1/me', { as: person.token })).status, 401)
  } finally {
    w.clock.ahead_ms = 0
  }
})
