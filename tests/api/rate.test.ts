import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { after, before, test } from 'node:test'
import { CompiledQuery, sql } from 'kysely'
import { LIMITS } from '../../contract/limits.ts'
import { createWaitPermits } from '../../service/api/calls/held-places.ts'
import { operationsGet } from '../../contract/routes/app/operations.ts'
import { me } from '../../contract/routes/app/principals.ts'
import type { Arrival, Principal } from '../../service/http/call.ts'
import { until } from '../support/processes.ts'
import { seeder, world, type World } from './support.ts'

let w: World
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())

test('the 3,601st token in an hour is 429 with its retry time; other keys mint on', async () => {
  const { key } = await seeder(w.database, w.clock, w.ids).key(w.a.organization_id, w.a.project_id)
  const id = await w.running('flood')
  const mint = () => w.post(`/v1/workspaces/${id}/tool-tokens`, {}, { as: key })
  let minted = 0
  while (minted < LIMITS.credential.tool_tokens_per_hour) {
    const answers = await Promise.all(Array.from({ length: 40 }, mint))
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [201])
    minted += answers.length
  }
  const limited = await mint()
  const seconds = Number(limited.headers.get('retry-after'))
  assert.ok(seconds > 2400 && seconds <= 3600, String(seconds))
  assert.deepEqual(
    [limited.status, limited.body.error.code, limited.body.error.retryable, limited.body.error.details],
    [429, 'rate_limited', true, { retry_after_seconds: seconds }],
  )
  assert.equal((await w.post(`/v1/workspaces/${id}/tool-tokens`)).status, 201)
  const reopened = await w.open('flood', {}, { as: key })
  assert.deepEqual([reopened.status, reopened.body.tool_token], [200, null])
})

test("an organization's creations per day are bounded, deleted ones included, and it creates more a day later", async () => {
  const { organization_id, project_id } = w.a
  const { token: owner } = await seeder(w.database, w.clock, w.ids).person(organization_id, 'owner', { stepped_up: true })
  const id = await w.running('made')
  await w.call('PUT', `/v1/workspaces/${id}/ports/3000`)
  let made = 0
  const makes: [keyof typeof LIMITS.per_day, () => ReturnType<World['post']>][] = [
    ['workspaces', () => w.open(`made-${made++}`)],
    ['workspaces', () => w.post(`/v1/workspaces/${id}/fork`, { key: `made-${made++}` })],
    ['secret_values', () => w.post(`/v1/projects/${project_id}/secrets`, { name: `MADE_${made++}`, value: 'v' })],
    ['api_keys', () => w.post(`/v1/projects/${project_id}/api-keys`, { tool_permissions: [] }, { as: owner })],
    [
      'invitations',
      () => w.post(`/v1/organizations/${organization_id}/invitations`, { email: `${made++}@example.com`, role: 'member' }, { as: owner }),
    ],
    ['port_credentials', () => w.post(`/v1/workspaces/${id}/ports/3000/tokens`)],
    ['template_builds', () => w.post(`/v1/templates/made-${made++}/builds`, { recipe: { base: 'base' } })],
  ]
  for (const [what, make] of makes) {
    const name = `${what}:${organization_id}`
    const first = await make()
    assert.ok(first.status < 300, JSON.stringify(first.body))
    await w.database.superuser.updateTable('rate_buckets').set({ tokens: 1 }).where('name', '=', name).execute()
    assert.ok((await make()).status < 300, what)
    const { status, body } = await make()
    assert.deepEqual([status, body.error.code], [429, 'rate_limited'], what)
    assert.ok(body.error.details.retry_after_seconds > 23 * 3600, what)
    const day_before = new Date(w.clock.now().getTime() - 24 * 3600 * 1000)
    await w.database.superuser.updateTable('rate_buckets').set({ updated_at: day_before }).where('name', '=', name).execute()
    assert.ok((await make()).status < 300, what)
  }
})

test('at the edge limit every call is 429 with Retry-After: 60 and request_id edge, until calls are allowed again', async () => {
  await using limited = await world({ edge_requests_per_minute: 6 })
  for (let n = 0; n < 6; n++) assert.equal((await limited.get('/v1/me')).status, 200)
  for (const [path, options] of [
    ['/v1/me', {}],
    ['/v1/client-versions', { as: null }],
    ['/v1/nope', {}],
    ['/v1/me', { as: null, headers: { 'x-request-id': 'mine-mine-mine' } }],
  ] as const) {
    const { status, body, headers } = await limited.get(path, options)
    assert.deepEqual([status, headers.get('retry-after'), headers.get('x-request-id')], [429, '60', 'edge'], path)
    const { message: _message, ...error } = body.error
    assert.deepEqual(error, { code: 'rate_limited', request_id: 'edge', retryable: true, details: { retry_after_seconds: 60 } })
  }
  limited.clock.ahead_ms = 10_000 // a sixth of a minute allows one of six calls
  assert.equal((await limited.get('/v1/me')).status, 200)
  assert.equal((await limited.get('/v1/me')).status, 429)
})

test('a caller over its rate is 429 before its request is parsed; an unknown caller is 401, and others go on', async () => {
  await using limited = await world({ caller_requests_per_minute: 6 })
  for (let n = 0; n < 6; n++) assert.equal((await limited.get('/v1/me')).status, 200)
  for (const answer of [await limited.get('/v1/me'), await limited.open('a', { unknown: 1 })]) {
    const { message: _message, request_id, ...error } = answer.body.error
    assert.deepEqual([answer.status, answer.headers.get('retry-after'), answer.headers.get('x-request-id')], [429, '10', request_id])
    assert.deepEqual(error, { code: 'rate_limited', retryable: true, details: { retry_after_seconds: 10 } })
  }
  assert.equal((await limited.get('/v1/me', { as: `${limited.a.key}x` })).status, 401)
  assert.equal((await limited.get('/v1/client-versions', { as: null })).status, 200)
  assert.equal((await limited.get('/v1/me', { as: limited.a2.key })).status, 200) // another key of the same organization is another caller
  limited.clock.ahead_ms = 10_000
  assert.equal((await limited.get('/v1/me')).status, 200)
  assert.equal((await limited.get('/v1/me')).status, 429)
})

test('an address with too many invalid credentials is 429 without a database query; known good credentials go on', async () => {
  await using limited = await world({ wrong_credentials_per_minute: 6 })
  const { token } = await seeder(limited.database, limited.clock, limited.ids).person(limited.a.organization_id, 'member')
  const good = async () => [(await limited.get('/v1/me')).status, (await limited.get('/v1/me', { as: token })).status]
  assert.deepEqual(await good(), [200, 200])
  const unknown = 'sfk_nobody_0123456789abcdef'
  const wrong = [`${limited.a.key}x`, unknown, `sfu_${'a'.repeat(43)}`]
  for (const as of [...wrong, ...wrong]) assert.equal((await limited.get('/v1/me', { as })).status, 401)
  for (const as of wrong) {
    const { status, headers, body } = await limited.get('/v1/me', { as })
    assert.deepEqual([status, headers.get('retry-after'), body.error.code], [429, '10', 'rate_limited'], as)
  }
  assert.equal((await limited.get('/v1/me', { as: 'sfk_malformed' })).status, 401) // a malformed key costs no query
  const asOwner = (text: string) => limited.database.superuser.executeQuery(CompiledQuery.raw(text))
  await asOwner('revoke select on api_keys, person_sessions from berth_api')
  for (const as of wrong) assert.equal((await limited.get('/v1/me', { as })).status, 429)
  await asOwner('grant select on api_keys, person_sessions to berth_api')
  limited.clock.ahead_ms = 11_000 // the cached key is read again, and one more wrong credential is allowed
  assert.deepEqual(await good(), [200, 200])
  assert.equal((await limited.get('/v1/me', { as: unknown })).status, 401)
  assert.equal((await limited.get('/v1/me', { as: unknown })).status, 429)
})

test("a refusal beyond its caller's limit of stored refusals is 429 instead; changes go on", async () => {
  await using limited = await world({ kept_refusals_per_hour: 2 })
  const id = await limited.running('kept')
  const close = (key: string) => limited.post(`/v1/workspaces/${id}/close`, {}, { headers: { 'idempotency-key': key } })
  for (const key of ['one', 'two', 'one', 'two', 'one']) assert.equal((await close(key)).status, 409)
  const { status, headers, body } = await close('three')
  assert.deepEqual([status, headers.get('retry-after'), body.error.code], [429, '1800', 'rate_limited'])
  const entries = await limited.database.superuser.selectFrom('idempotency_entries').select('key').execute()
  assert.deepEqual(entries.map(({ key }) => key).sort(), ['one', 'two'])
  assert.equal((await limited.post(`/v1/workspaces/${id}/close`)).status, 409)
  assert.equal((await limited.open('other', {}, { headers: { 'idempotency-key': 'three' } })).status, 202)
  limited.clock.ahead_ms = 1800_000
  assert.equal((await close('three')).status, 409)
})

test("a tenant's changes per day are bounded over all keys; deletions and other tenants go on, and no refusal is recorded", async () => {
  await using limited = await world({ changes_per_day: 2 })
  const { key: second } = await seeder(limited.database, limited.clock, limited.ids).key(limited.a.organization_id, limited.a.project_id)
  const opened = await limited.open('first')
  assert.deepEqual([opened.status, (await limited.open('second', {}, { as: second })).status], [202, 202])
  const records = async () => (await limited.database.superuser.selectFrom('audit_events').select('id').execute()).length
  const before = await records()
  const refused = await limited.open('third', {}, { headers: { 'idempotency-key': 'third' } })
  assert.deepEqual([refused.status, refused.body.error.code, refused.headers.get('retry-after')], [429, 'rate_limited', '43200'])
  assert.equal(await records(), before)
  assert.equal((await limited.open('theirs', {}, { as: limited.b.key })).status, 202)
  assert.equal((await limited.call('DELETE', `/v1/workspaces/${opened.body.workspace.id}`)).status, 202)
  limited.clock.ahead_ms = 43_200_000
  assert.equal((await limited.open('third', {}, { headers: { 'idempotency-key': 'third' } })).status, 202)
})

test('starts that wait for one another leave connections to other callers', async () => {
  const seeds = seeder(w.database, w.clock, w.ids)
  const { key: as, organization_id } = await seeds.tenant('burst', await seeds.plan('burst', { concurrent_workspaces: 5 }))
  const { key: other } = await seeds.tenant('calm', await seeds.plan('calm', { concurrent_workspaces: 5 }))
  const waiting = async () => {
    const { rows } = await sql`select 1 from pg_locks where locktype = 'advisory' and not granted`.execute(w.database.superuser)
    return rows.length
  }
  const begun = await w.database.superuser.transaction().execute(async (tx) => {
    await sql`select pg_advisory_xact_lock(hashtextextended(${`admission:${organization_id}`}, 0))`.execute(tx)
    const burst = Array.from({ length: 20 }, (_, n) => w.open(`burst-${n}`, {}, { as }))
    await until('some of them wait', 10_000, async () => (await waiting()) >= 2)
    const started = performance.now()
    assert.deepEqual([(await w.open('calm', {}, { as: other })).status, (await w.get('/v1/me')).status], [202, 200])
    assert.ok(performance.now() - started < 1500)
    return burst
  })
  const answers = (await Promise.all(begun)).map(({ status }) => status)
  assert.deepEqual([answers.filter((status) => status === 202).length, answers.filter((status) => status === 403).length], [5, 15])
})

test('of 2,000 calls that ask to be held, 1,000 are held and the others are 429 at once without any effect', async () => {
  const opened = await w.open('held')
  const path = `/v1/operations/${opened.body.operation.id}`
  const agent = new Agent({ keepAlive: false, maxSockets: Infinity })
  const headers = { authorization: `Bearer ${w.a.key}`, prefer: 'wait=20' }
  const calls = Array.from({ length: 2000 }, () => answerOf(agent, `${w.base}${path}`, headers))
  const refused: number[] = []
  const first = new Promise<void>((resolve) => {
    for (const call of calls)
      void call.then(({ status }) => {
        if (status === 429) refused.push(status)
        if (refused.length === 1000) resolve()
      })
  })
  await first
  const more = await w.open('held-more', {}, { headers: { prefer: 'wait=1' } })
  assert.deepEqual([more.status, more.body.error.code, more.headers.get('retry-after')], [429, 'rate_limited', '1'])
  assert.deepEqual((await w.get('/v1/workspaces?key_prefix=held-more')).body.data, [])
  assert.equal((await w.get(path)).status, 200) // a call without a wait is served
  assert.equal((await w.get(path, { as: w.b.key, headers: { prefer: 'wait=1' } })).status, 404) // another caller is served, too
  await w.cell.succeed(opened.body.operation.id)
  const answers = await Promise.all(calls)
  const held = answers.filter(({ status }) => status === 200)
  assert.equal(held.length, 1000)
  assert.deepEqual([...new Set(held.map(({ applied, state }) => `${applied} ${state}`))], ['wait=20 succeeded'])
  const again = await w.get(path, { headers: { prefer: 'wait=1' } }) // every wait permit is free again
  assert.equal(again.status, 200)
  agent.destroy()
})

test('a wait permit is taken by calls that ask to be held and released once; at the global limit the answer is 503', () => {
  const places = createWaitPermits({ all: 3, per_principal: 2 })
  const arrival = (prefer: string | undefined, route = operationsGet) =>
    ({ route, headers: prefer ? { prefer } : {} }) as unknown as Arrival
  const who = (id: string) => ({ type: 'api_key', id }) as Principal
  const refusal = (id: string) => {
    try {
      places.acquire(arrival('wait=20'), who(id))?.[Symbol.dispose]()
      return 'held'
    } catch (error) {
      return (error as { code: string }).code
    }
  }
  for (const none of [undefined, 'wait=0', 'wait=x', 'respond-async']) assert.equal(places.acquire(arrival(none), who('a')), undefined)
  assert.equal(places.acquire({ ...arrival('wait=20'), route: me }, who('a')), undefined)
  const one = places.acquire(arrival('wait=20'), who('a'))
  places.acquire(arrival('wait=20'), who('a'))
  assert.deepEqual([refusal('a'), refusal('b')], ['rate_limited', 'held'])
  places.acquire(arrival('wait=20'), who('b'))
  assert.deepEqual([refusal('b'), refusal('c')], ['dependency_unavailable', 'dependency_unavailable'])
  one?.[Symbol.dispose]()
  assert.deepEqual([refusal('a'), refusal('c')], ['held', 'held'])
})

async function answerOf(agent: Agent, url: string, headers: Record<string, string>) {
  const sent = request(url, { agent, headers })
  sent.end()
  const [response] = (await once(sent, 'response')) as [import('node:http').IncomingMessage]
  let text = ''
  for await (const chunk of response) text += String(chunk)
  return {
    status: response.statusCode,
    applied: String(response.headers['preference-applied']),
    state: (JSON.parse(text) as { state?: string }).state,
  }
}
