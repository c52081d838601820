import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createLocalJWKSet, jwtVerify } from 'jose'
import { LIMITS } from '../../contract/limits.ts'
import { TOOL_TOKEN_TYPE, ToolTokenClaims } from '../../contract/tool-token.ts'
import { validatorOf } from '../../service/http/checks.ts'
import { seeder, world, type World } from './support.ts'

let w: World
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())

test('a token verifies with the published keys and carries exactly its claims', async () => {
  const id = await w.running('claims')
  const { status, body } = await w.post(`/v1/workspaces/${id}/tool-tokens`, { agent_label: 'a', tools: ['files'] })
  assert.equal(status, 201)
  const keys = await w.get('/v1/.well-known/tool-token-keys', { as: null })
  assert.match(keys.headers.get('cache-control') ?? '', /public/)
  assert.deepEqual(Object.keys(keys.body.keys[0]).sort(), ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'])
  const { payload, protectedHeader } = await jwtVerify(body.token, createLocalJWKSet(keys.body), {
    issuer: 'http://api.test',
    audience: body.cell_endpoint,
  })
  assert.deepEqual(protectedHeader, { alg: 'ES256', typ: TOOL_TOKEN_TYPE, kid: body.kid })
  assert.ok(validatorOf(ToolTokenClaims)(payload))
  const { iat = 0, exp = 0, jti: _jti, ...claims } = payload
  assert.equal(exp - iat, LIMITS.credential.tool_token_seconds)
  assert.deepEqual(claims, {
    iss: 'http://api.test',
    aud: 'http://one.cell.test',
    sub: w.a.key_row_id,
    pty: 'api_key',
    org: w.a.organization_id,
    prj: w.a.project_id,
    ws: id,
    epoch: 1,
    tools: ['files'],
    sid: body.agent_session_id,
  })
  assert.deepEqual([body.issued_at, body.expires_at], [new Date(iat * 1000).toISOString(), new Date(exp * 1000).toISOString()])
})

test("a person's token names the session that requested it", async () => {
  const id = await w.running('of-a-session')
  const person = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'member')
  const [session] = (await w.get('/v1/auth/sessions', { as: person.token })).body.data
  const { body } = await w.post(`/v1/workspaces/${id}/tool-tokens`, {}, { as: person.token })
  const { jti } = JSON.parse(Buffer.from(body.token.split('.')[1], 'base64url').toString()) as { jti: string }
  assert.equal(jti.split('.')[0], session.id)
})

test('each workspace, principal and label has one agent session', async () => {
  const id = await w.running('sessions')
  const mint = async (body: object, as = w.a.key) => (await w.post(`/v1/workspaces/${id}/tool-tokens`, body, { as })).body.agent_session_id
  const first = await mint({})
  assert.equal(await mint({ agent_label: 'default' }), first)
  const other = await mint({ agent_label: 'other' })
  const person = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'member')
  const theirs = await mint({}, person.token)
  const { body } = await w.get(`/v1/workspaces/${id}/agent-sessions`)
  assert.deepEqual(
    body.data.map((row: { id: string; agent_label: string }) => [row.id, row.agent_label]),
    [
      [theirs, 'default'],
      [other, 'other'],
      [first, 'default'],
    ],
  )
  assert.deepEqual(body.data[0].principal, { type: 'user', id: person.id })
})

test('without a body or tools a token has all tools of its principal', async () => {
  const id = await w.running('defaults')
  assert.deepEqual((await w.post(`/v1/workspaces/${id}/tool-tokens`)).body.tools, ['exec', 'files'])
  const denied = await w.post(`/v1/workspaces/${id}/tool-tokens`, { tools: ['browser'] })
  assert.deepEqual([denied.status, denied.body.error.details], [403, { denied_tools: ['browser'], permitted_tools: ['exec', 'files'] }])
  for (const tools of [[], ['shell'], ['exec', 'exec']]) {
    assert.equal((await w.post(`/v1/workspaces/${id}/tool-tokens`, { tools })).status, 422)
  }
})

test('an agent label is any text of 1 to 100 characters but NUL and lone surrogates', async () => {
  const id = await w.running('labels')
  const statuses = async (labels: string[]) =>
    Promise.all(labels.map(async (agent_label) => (await w.post(`/v1/workspaces/${id}/tool-tokens`, { agent_label })).status))
  const good = ['a\nb', '\t\u001b[1m\u0085', '😀'.repeat(100)]
  assert.deepEqual(await statuses(good), [201, 201, 201])
  assert.deepEqual(await statuses(['', 'x'.repeat(101), 'a\0', '\ud800']), [422, 422, 422, 422])
  const { data } = (await w.get(`/v1/workspaces/${id}/agent-sessions`)).body
  assert.deepEqual(data.map((row: { agent_label: string }) => row.agent_label).sort(), [...good].sort())
})

test("at a workspace's limit of agent sessions the least recently used one is removed", async () => {
  const id = await w.running('dropped-sessions')
  const most = LIMITS.workspace.agent_sessions_max
  const session = (n: number) => ({ id: w.ids.next(), workspace_id: id, principal_type: 'api_key' as const, principal_id: w.a.key_row_id, agent_label: `${n}`, created_at: w.clock.now(), last_used_at: new Date(n) }) // prettier-ignore
  const { superuser: db } = w.database
  await db.insertInto('agent_sessions').values(Array.from({ length: most }, (_, n) => session(n))).execute() // prettier-ignore
  for (const agent_label of ['0', 'new']) assert.equal((await w.post(`/v1/workspaces/${id}/tool-tokens`, { agent_label })).status, 201)
  const left = await db.selectFrom('agent_sessions').select('agent_label').where('workspace_id', '=', id).execute()
  const labels = new Set(left.map((row) => row.agent_label))
  assert.deepEqual([left.length, labels.has('0'), labels.has('new'), labels.has('1')], [most, true, true, false])
})

test('a suspended workspace gets a token; a starting or failed one does not', async () => {
  const opened = await w.open('states')
  const id = opened.body.workspace.id
  const tokens = `/v1/workspaces/${id}/tool-tokens`
  const starting = await w.post(tokens)
  assert.deepEqual(
    [starting.status, starting.body.error.details.reason, starting.body.error.operation_id],
    [409, 'operation_in_progress', opened.body.operation.id],
  )
  await w.cell.fail(opened.body.operation.id)
  const failed = await w.post(tokens)
  // No operation will end this state, so a retry is useless.
  const { retryable, operation_id, details } = failed.body.error
  assert.deepEqual([failed.status, retryable, operation_id, details], [409, false, undefined, { reason: 'not_running' }])
  await w.cell.succeed((await w.open('states')).body.operation.id)
  await w.cell.succeed((await w.post(`/v1/workspaces/${id}/suspend`)).body.id)
  assert.equal((await w.post(tokens)).status, 201)
})

test('when the hourly budget is used up, minting is 429 and a ready open has no token', async () => {
  const seeds = seeder(w.database, w.clock, w.ids)
  const { key, key_row_id } = await seeds.key(w.a.organization_id, w.a.project_id)
  const id = await w.running('budget')
  const mint = () => w.post(`/v1/workspaces/${id}/tool-tokens`, {}, { as: key })
  assert.equal((await mint()).status, 201)
  const name = `tool_tokens:api_key:${key_row_id}`
  const bucket = await w.database.superuser.selectFrom('rate_buckets').selectAll().where('name', '=', name).executeTakeFirstOrThrow()
  assert.equal(bucket.tokens, LIMITS.credential.tool_tokens_per_hour - 1)
  await w.database.superuser.updateTable('rate_buckets').set({ tokens: 1 }).where('name', '=', name).execute()
  assert.equal((await mint()).status, 201)
  const limited = await mint()
  const { error } = limited.body
  assert.deepEqual([limited.status, error.code, error.retryable], [429, 'rate_limited', true])
  assert.equal(limited.headers.get('retry-after'), String(error.details.retry_after_seconds))
  assert.ok(error.details.retry_after_seconds > 3500 && error.details.retry_after_seconds <= 3600)
  const opened = await w.open('budget', {}, { as: key })
  assert.deepEqual([opened.status, opened.body.tool_token], [200, null])
  assert.equal((await w.post(`/v1/workspaces/${id}/tool-tokens`)).status, 201) // another key has its own budget
  try {
    w.clock.ahead_ms = 3600 * 1000
    assert.equal((await mint()).status, 201)
  } finally {
    w.clock.ahead_ms = 0
  }
})

test('two processes sign with one key', async () => {
  const id = await w.running('one-key')
  const base = await w.second()
  const [one, two] = [
    await w.post(`/v1/workspaces/${id}/tool-tokens`),
    await w.post(`/v1/workspaces/${id}/tool-tokens`, undefined, { base }),
  ]
  assert.equal(one.body.kid, two.body.kid)
})
