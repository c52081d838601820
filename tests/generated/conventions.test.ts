import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { LIMITS } from '../../contract/limits.ts'
import { patternOf, type AppRoute } from '../../contract/route.ts'
import type { Issue } from '../../contract/schemas/error.ts'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { propertiesOf } from '../../service/http/checks.ts'
import { seeder, world, type World } from '../api/support.ts'
import { ask, ownIds, routesWithBody, said, usualCaller, type Ids } from './app-world.ts'
import { idsOf, sampleOf } from './samples.ts'

let w: World
let own: Ids
before(async () => {
  w = await world()
  own = await ownIds(w)
})
after(() => w[Symbol.asyncDispose]())

const raw = (route: AppRoute, body: string, type = 'application/json') =>
  w.call(route.method, sampleOf(route, own).path, { as: usualCaller(w, route, own), body, headers: { 'content-type': type } })

for (const route of APP_ROUTES.filter(({ access }) => access.kind !== 'anyone')) {
  const is_of_unfinished = route.access.kind === 'principal' && route.access.unfinished === true
  test(`${route.id} is for good credentials only`, async () => {
    assert.equal(said(await ask(w, route, own, { as: null })), '401 unauthenticated')
    if (is_of_unfinished) return // these routes serve sessions that wait for a second factor: tests/api/auth.test.ts
    const { token } = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'owner', { email_verified: false })
    assert.equal(said(await ask(w, route, own, { as: token })), '403 email_unverified')
    const waiting = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'owner')
    await w.database.superuser.updateTable('person_sessions').set({ mfa_pending: true }).where('person_id', '=', waiting.id).execute()
    assert.equal(said(await ask(w, route, own, { as: waiting.token })), '403 mfa_required')
  })
}

test('at the edge limit every route is 429', async () => {
  await using limited = await world({ edge_requests_per_minute: 1 })
  await limited.get('/v1/me')
  for (const route of APP_ROUTES) assert.equal(said(await ask(limited, route)), '429 rate_limited', route.id)
})

for (const route of APP_ROUTES.filter((each) => idsOf(each).length > 0)) {
  test(`${route.id} refuses what is no id and what is no address`, async () => {
    for (const name of idsOf(route)) {
      const refused = await ask(w, route, { ...own, [name]: name === 'slug' ? 'not_a_slug' : 'not-a-uuid' })
      assert.deepEqual([said(refused), refused.body.error.details.issues[0].path], ['422 validation_failed', name])
    }
    const [name = ''] = idsOf(route)
    assert.equal(said(await ask(w, route, { ...own, [name]: '%zz' })), '400 bad_request')
  })
}

for (const route of APP_ROUTES.filter(({ query }) => query !== undefined)) {
  test(`${route.id} refuses bad values of every query parameter`, async () => {
    const max = (route.query as { properties?: { limit?: { maximum?: number } } }).properties?.limit?.maximum ?? LIMITS.page.size_max
    const bad: Record<string, string[]> = { limit: ['0', String(max + 1), 'x', '1.5', '-1'], cursor: ['nope'] }
    for (const name of Object.keys((route.query as { properties: object }).properties)) {
      for (const value of bad[name] ?? ['%00']) {
        const refused = await w.get(`${sampleOf(route, own).path}?${name}=${value}`, { as: usualCaller(w, route, own) })
        assert.deepEqual([said(refused), refused.body.error.details.issues[0].path], ['422 validation_failed', name])
      }
    }
  })
}

for (const route of APP_ROUTES) {
  test(`${route.id} refuses query parameters that it does not know, and names the one that was meant`, async () => {
    const { method, path, json } = sampleOf(route, own)
    const names = Object.keys(propertiesOf(route.query))
    const slips = names.map((name) => `${name}s`)
    const search = new URLSearchParams(['nonsense', ...slips].map((name): [string, string] => [name, '1']))
    const as = usualCaller(w, route, own)
    const refused = await w.call(method, `${path}?${search.toString()}`, { as, ...(json === undefined ? {} : { body: json }) })
    assert.deepEqual(
      [said(refused), refused.body.error.details.issues.map(({ path: name, nearest }: Issue) => [name, nearest])],
      ['422 validation_failed', [['nonsense', undefined], ...names.map((name) => [`${name}s`, name])]],
    )
  })

  test(`${route.id} is kept by no cache unless it says so`, async () => {
    const declared = Object.values(route.answers).map(({ headers }) => headers?.['Cache-Control'] ?? 'no-store')
    const ids = route.method === 'GET' ? own : {} // no call may change what other tests need
    for (const as of [w.a.key, null]) {
      const answer = await ask(w, route, ids, { as, body: { template: 'absent' } })
      const expected = answer.status < 400 ? declared : ['no-store']
      assert.ok(expected.includes(answer.headers.get('cache-control') ?? ''), `${said(answer)} ${answer.headers.get('cache-control')}`)
    }
  })
}

for (const route of routesWithBody) {
  test(`${route.id} refuses bodies that are not its own`, async () => {
    assert.equal(said(await raw(route, '{}', 'text/xml')), '415 unsupported_media_type')
    assert.equal(said(await raw(route, '{"a":')), '400 bad_request')
    assert.equal(said(await raw(route, '')), '400 bad_request')
    assert.equal(said(await raw(route, `{"a":"${'x'.repeat(LIMITS.json.body_bytes_max)}"}`)), '413 payload_too_large')
    const smuggled = ['id', 'organization_id', 'desired_state', 'purpose', '__proto__', 'constructor']
    // Written as text, because a literal's `__proto__` would set the prototype and not be sent.
    const body = `{${smuggled.map((name) => `${JSON.stringify(name)}:{"prototype":{"x":1},"x":1}`).join(',')}}`
    const refused = await raw(route, body)
    const paths = refused.body.error.details.issues.map(({ path }: { path: string }) => path)
    assert.deepEqual([said(refused), smuggled.filter((name) => !paths.includes(name))], ['422 validation_failed', []])
    assert.equal(({} as { x?: unknown }).x, undefined)
  })
}

for (const route of APP_ROUTES.filter(({ idempotent }) => idempotent)) {
  const [name] = idsOf(route)
  // Refusals are stored too, so every route has an answer to repeat.
  const request = () => {
    if (route.id === 'template-builds.create' || route.id === 'drafts.create') return { ids: own, body: { project_id: w.ids.next() } }
    return name === undefined ? { ids: own, body: { template: 'absent' } } : { ids: { ...own, [name]: w.ids.next() }, body: {} }
  }

  test(`${route.id}: a key of 256 characters, with a space, empty or not ASCII is 422, and of another request a mismatch`, async () => {
    for (const key of ['x'.repeat(256), 'a b', 'é', '']) {
      const refused = await ask(w, route, own, { headers: { 'idempotency-key': key } })
      assert.deepEqual([said(refused), refused.body.error.details.field], ['422 validation_failed', 'Idempotency-Key'], key)
    }
    const headers = { 'idempotency-key': `mismatch of ${route.id}`.replaceAll(' ', '-') }
    const { ids, body } = request()
    const first = await ask(w, route, ids, { body, headers })
    assert.equal(said(first), '404 not_found')
    assert.equal(said(await ask(w, route, ids, { body, headers })), '404 not_found')
    const other = request()
    const changed = name === undefined && route.id === 'workspaces.open' ? { ...other.body, key: 'another' } : other.body
    assert.equal(said(await ask(w, route, other.ids, { body: changed, headers })), '422 idempotency_mismatch')
  })

  test(`${route.id}: a key whose request is in progress is a retryable 409 without a reason`, async () => {
    const key = `held-${route.id}`
    const lock = JSON.stringify([`api_key:${w.a.key_row_id}`, route.id, key])
    await w.database.superuser.transaction().execute(async (tx) => {
      await sql`select pg_advisory_xact_lock(hashtextextended(${lock}, 1))`.execute(tx) // the lock that a request in progress holds
      const { ids, body } = request()
      const refused = await ask(w, route, ids, { body, headers: { 'idempotency-key': key } })
      assert.deepEqual([said(refused), refused.body.error.retryable], ['409 conflict', true])
    })
  })
}

test('an unknown method is 404 on every path, and names the known ones', async () => {
  for (const { path } of APP_ROUTES) {
    const taken = APP_ROUTES.filter((route) => patternOf(route.path).test(path.replaceAll(/\{\w+\}/g, 'x'))).map((route) => route.method)
    for (const method of ['PATCH', 'QUERY', 'OPTIONS', 'PROPFIND'].filter((each) => !taken.some((one) => one === each))) {
      const refused = await w.call(method, path.replaceAll(/\{\w+\}/g, w.ids.next()))
      assert.equal(said(refused), '404 not_found', `${method} ${path}`)
      const allowed = new Set([...taken, ...(taken.includes('GET') ? ['HEAD'] : [])])
      assert.equal(refused.headers.get('allow'), [...allowed].sort().join(', '), `${method} ${path}`)
    }
  }
})

test('a key cannot mint a tool that it lacks, and mints all of its tools by default', async () => {
  const { key } = await seeder(w.database, w.clock, w.ids).key(w.a.organization_id, w.a.project_id, ['files'])
  const refused = await w.post(`/v1/workspaces/${own['workspace_id']}/tool-tokens`, { tools: ['exec', 'files'] }, { as: key })
  assert.deepEqual([said(refused), refused.body.error.details], ['403 forbidden', { denied_tools: ['exec'], permitted_tools: ['files'] }])
  assert.deepEqual((await w.post(`/v1/workspaces/${own['workspace_id']}/tool-tokens`, {}, { as: key })).body.tools, ['files'])
  await w.running('t31')
  const opened = await w.open('t31', {}, { as: key })
  assert.deepEqual([opened.status, opened.body.tool_token.tools], [200, ['files']])
})
