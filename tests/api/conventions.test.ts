import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import type { AppRoute } from '../../contract/route.ts'
import { forgetOutcomes } from '../../service/api/idempotency/store.ts'
import { upload } from '../generated/app-world.ts'
import { sample } from '../generated/samples.ts'
import { until } from '../support/processes.ts'
import { seeder, world, type Answer, type World } from './support.ts'

let w: World
/** Of people, for routes that take no key: an owner of a's organization, and one of b's. */
let [owner, stranger] = ['', '']
let session_of_owner: string
before(async () => {
  w = await world()
  const seeds = seeder(w.database, w.clock, w.ids)
  const person = await seeds.person(w.a.organization_id, 'owner')
  owner = person.token
  session_of_owner = await seeds.session(person.id)
  stranger = (await seeds.person(w.b.organization_id, 'owner')).token
})
after(() => w[Symbol.asyncDispose]())

const code = (answer: Answer) => [answer.status, answer.body.error.code]
/** Bodies that the smallest sample of a schema does not make. */
const GOOD_BODIES: Record<string, object> = {
  'workspaces.open': { key: 'k', template: 'base' },
  'workspaces.fork': { key: 'fork' },
  'workspaces.fork_tree': { key: 'fork' },
  'workspaces.idle_policy': { idle_policy: null },
  'workspaces.suspend_when_idle': { after_seconds: 30 },
  'workspaces.restore': { checkpoint_id: '01920000-0000-7000-8000-000000000000' },
  'workspaces.set_secrets': { names: [] },
  'secrets.create': { name: 'NAME', value: 'v' },
  'secrets.create_of_organization': { name: 'NAME', value: 'v' },
  'secret-versions.create': { value: 'v' },
  'egress.project_put': { mode: 'deny_all' },
  'egress.workspace_put': { mode: 'deny_all' },
  'volumes.create': { name: 'name', quota_gib: 1 },
  'attachments.create': { volume_id: '01920000-0000-7000-8000-000000000000', mount_path: '/home/user/data' },
}
const goodBody = (route: AppRoute): object => {
  const { body } = route
  return GOOD_BODIES[route.id] ?? (body === undefined || body === 'bytes' || route.body_optional ? {} : (sample(body) as object))
}
const NAMES: Record<string, string> = { port: '3000', slug: 'base', version: '1' }
const fill = (path: string, id: (name: string) => string) => path.replaceAll(/\{(\w+)\}/g, (_, name: string) => NAMES[name] ?? id(name))
const isForPeople = ({ access }: AppRoute) => access.kind === 'principal' && (access.keys === 'forbidden' || access.keys === 'unknown')
const callerOf = (route: AppRoute) => (isForPeople(route) ? { as: owner } : {})
const send = (route: AppRoute, url: string, options: object = {}) =>
  w.call(route.method, url, {
    ...callerOf(route),
    ...(route.body === undefined ? {} : { body: goodBody(route) }),
    ...options,
  })

test('every route with an id answers the same 404 for what is not there and for what is somebody else’s', async () => {
  const [mine, saved] = [await w.running('tenancy'), await w.running('saved')]
  const random = w.ids.next()
  const own: Record<string, string> = {
    workspace_id: mine,
    operation_id: (await w.post(`/v1/workspaces/${mine}/suspend`)).body.id,
    organization_id: w.a.organization_id,
    project_id: w.a.project_id,
    build_id: (await w.post(`/v1/workspaces/${saved}/save-as-template`, { template_slug: 'saved' })).body.build.id,
    secret_id: (await w.post(`/v1/projects/${w.a.project_id}/secrets`, { name: 'TENANCY', value: 'v' })).body.id,
    session_id: session_of_owner,
    upload_id: await upload(w),
  }
  const before = (await w.get(`/v1/workspaces/${mine}`)).body
  const checked: string[] = []
  for (const route of APP_ROUTES) {
    const [, name] = /\{(\w+_id)\}/.exec(route.path) ?? []
    if (name === undefined) continue
    checked.push(route.id)
    // Whatever it names below that id is not there either.
    const url = (id: string) => fill(route.path.replace(`{${name}}`, id), () => random)
    const missing = await send(route, url(random))
    const keys = name === 'organization_id' ? [w.b.key] : [w.b.key, w.a2.key]
    const callers = isForPeople(route) ? [stranger] : keys
    for (const as of callers) {
      const foreign = await send(route, url(own[name] ?? ''), { as })
      for (const { body } of [missing, foreign]) delete body.error?.request_id
      assert.deepEqual([foreign.status, foreign.body], [404, missing.body], route.id)
    }
    const bad = await send(route, url('not-a-uuid'))
    assert.deepEqual([code(bad), bad.body.error.details.issues[0].path], [[422, 'validation_failed'], name], route.id)
    assert.deepEqual(code(await send(route, url(random), { as: null })), [401, 'unauthenticated'], route.id)
  }
  assert.ok(checked.length >= 17, checked.join())
  assert.deepEqual((await w.get(`/v1/workspaces/${mine}`)).body, before)
})

test('every route with a body refuses unknown properties, other types and what is not JSON', async () => {
  for (const route of APP_ROUTES.filter(({ method, body }) => method !== 'GET' && body !== 'bytes')) {
    const url = fill(route.path, () => w.ids.next())
    const good = goodBody(route)
    const as = callerOf(route)
    const unknown = await w.call(route.method, url, { ...as, body: { ...good, nope: 1, id: 'x' } })
    assert.deepEqual(
      [unknown.status, unknown.body.error.details.issues.map((issue: { path: string }) => issue.path).sort()],
      [422, ['id', 'nope']],
      route.id,
    )
    assert.deepEqual(code(await w.call(route.method, url, { ...as, body: '{"a":' })), [400, 'bad_request'], route.id)
    assert.deepEqual(
      code(await w.call(route.method, url, { ...as, body: '', headers: { 'content-type': 'application/json' } })),
      [400, 'bad_request'],
      route.id,
    )
    assert.deepEqual(
      code(await w.call(route.method, url, { ...as, body: '{}', headers: { 'content-type': 'text/xml' } })),
      [415, 'unsupported_media_type'],
      route.id,
    )
    assert.deepEqual(
      code(await w.call(route.method, url, { ...as, body: `{"a":"${'x'.repeat(1 << 20)}"}` })),
      [413, 'payload_too_large'],
      route.id,
    )
    for (const wrong of ['[]', '1', 'null'])
      assert.equal((await w.call(route.method, url, { ...as, body: wrong })).status, 422, `${route.id} ${wrong}`)
  }
})

test('a credential that is not good is 401 with one answer for all', async () => {
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

test('a revoked key and narrowed tools are effective at once', async () => {
  const seeds = seeder(w.database, w.clock, w.ids)
  const { key, key_row_id } = await seeds.key(w.a.organization_id, w.a.project_id, ['exec', 'git'])
  assert.deepEqual((await w.get('/v1/me', { as: key })).body.api_key.tool_permissions, ['exec', 'git'])
  const keys = w.database.superuser.updateTable('api_keys').where('id', '=', key_row_id)
  await keys.set({ tool_permissions: ['exec'] }).execute()
  await until('the tools are narrowed', 9000, async () => (await w.get('/v1/me', { as: key })).body.api_key.tool_permissions.length === 1)
  await keys.set({ revoked_at: w.clock.now() }).execute()
  await until('the key is revoked', 9000, async () => (await w.get('/v1/me', { as: key })).status === 401)
})

test('me, organizations and projects show an API key its own and a person theirs', async () => {
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

test('a repeat with the same idempotency key has one effect and answers afresh', async () => {
  const headers = { 'idempotency-key': 'once' }
  const first = await w.open('once', {}, { headers })
  const repeat = await w.open('once', {}, { headers })
  assert.deepEqual([repeat.status, repeat.body], [first.status, first.body])
  await w.cell.succeed(first.body.operation.id)
  const later = await w.open('once', {}, { headers: { ...headers, prefer: 'wait=5' } })
  assert.deepEqual([later.status, later.body.operation.id], [200, first.body.operation.id])
  const again = await w.open('once', {}, { headers: { ...headers, prefer: 'wait=5' } })
  assert.notEqual(again.body.tool_token.token, later.body.tool_token.token)
  const { outcome } = await w.database.superuser
    .selectFrom('idempotency_entries')
    .select('outcome')
    .where('key', '=', 'once')
    .executeTakeFirstOrThrow()
  assert.doesNotMatch(JSON.stringify(outcome), /eyJ/)
})

test('a key of another request is a mismatch, of another principal or route it is another key', async () => {
  const headers = { 'idempotency-key': 'mine' }
  const first = await w.open('mine', { inputs: { CITY: 'a', COLOUR: 'b' } }, { headers })
  assert.equal((await w.open('mine', { inputs: { COLOUR: 'b', CITY: 'a' } }, { headers })).body.operation.id, first.body.operation.id)
  assert.deepEqual(code(await w.open('mine', { inputs: { CITY: 'c' } }, { headers })), [422, 'idempotency_mismatch'])
  assert.equal((await w.open('mine', {}, { headers, as: w.b.key })).status, 202)
  await w.cell.succeed(first.body.operation.id)
  const id = first.body.workspace.id
  const suspend = await w.post(`/v1/workspaces/${id}/suspend`, undefined, { headers })
  assert.equal(suspend.status, 202)
  await w.cell.succeed(suspend.body.id)
  assert.equal((await w.post(`/v1/workspaces/${id}/suspend`, undefined, { headers })).body.id, suspend.body.id)
})

test('a decided refusal is kept, one that may change is not, and both are forgotten after a day', async () => {
  const headers = { 'idempotency-key': 'refused' }
  assert.deepEqual(code(await w.open('refused', { template: 'later' }, { headers })), [404, 'not_found'])
  await seeder(w.database, w.clock, w.ids).template(w.a.organization_id, 'later', (await import('./support.ts')).SETTINGS)
  assert.deepEqual(code(await w.open('refused', { template: 'later' }, { headers })), [404, 'not_found'])
  const id = await w.running('busy')
  const suspend = await w.post(`/v1/workspaces/${id}/suspend`)
  const retry = { 'idempotency-key': 'retry' }
  assert.equal((await w.post(`/v1/workspaces/${id}/resume`, {}, { headers: retry })).status, 409)
  await w.cell.succeed(suspend.body.id)
  assert.equal((await w.post(`/v1/workspaces/${id}/resume`, {}, { headers: retry })).status, 202)
  try {
    w.clock.ahead_ms = 24 * 3600 * 1000 + 1000
    assert.equal((await w.open('refused', { template: 'later' }, { headers })).status, 202)
  } finally {
    w.clock.ahead_ms = 0
  }
})

test('what is kept for a hundred thousand keys is forgotten after a day, and nothing younger', async () => {
  const now = w.clock.now()
  const at = (seconds_ago: number) => new Date(now.getTime() - seconds_ago * 1000)
  const fill = async (count: number, created_at: Date, route: string) => {
    const row = { principal: 'api_key:flood', route, fingerprint: Buffer.alloc(32), outcome: '{}', created_at }
    for (let n = 0; n < count; n += 5000)
      await w.database.superuser
        .insertInto('idempotency_entries')
        .values(Array.from({ length: Math.min(5000, count - n) }, (_, k) => ({ ...row, key: String(n + k) })))
        .execute()
  }
  await fill(100_000, at(24 * 3600 + 1), 'old')
  await fill(10, at(24 * 3600 - 60), 'young')
  assert.equal(await forgetOutcomes(w.database.api, now), 100_000)
  const { left } = await w.database.superuser
    .selectFrom('idempotency_entries')
    .select((e) => e.fn.countAll<number>().as('left'))
    .where('principal', '=', 'api_key:flood')
    .executeTakeFirstOrThrow()
  assert.equal(left, 10)
})

test('30 calls with one idempotency key at once have one effect; who comes too early is told to try again', async () => {
  const id = await w.running('race')
  const calls = await Promise.all(
    Array.from({ length: 30 }, () => w.post(`/v1/workspaces/${id}/fork`, { key: 'race-fork' }, { headers: { 'idempotency-key': 'race' } })),
  )
  const done = calls.filter(({ status }) => status === 202)
  assert.equal(new Set(done.map(({ body }) => body.operation.id)).size, 1)
  for (const { status, body } of calls.filter((answer) => answer.status !== 202)) {
    assert.deepEqual([status, body.error.code, body.error.retryable, body.error.details], [409, 'conflict', true, undefined])
  }
})

test('pages are newest first, stay whole under inserts, and their cursors are good for one caller and one filter', async () => {
  const headers = { as: w.a2.key }
  const ids: string[] = []
  for (let n = 0; n < 5; n++) ids.unshift((await w.open(`page-${n}`, {}, headers)).body.workspace.id)
  const first = await w.get('/v1/workspaces?limit=2', headers)
  await w.open('page-new', {}, headers)
  const cursor = first.body.next_cursor as string
  assert.ok(cursor.length <= 200)
  const second = await w.get(`/v1/workspaces?limit=3&cursor=${cursor}`, headers)
  assert.deepEqual(
    [...first.body.data, ...second.body.data].map((row: { id: string }) => row.id),
    ids,
  )
  assert.equal(second.body.next_cursor, null)
  const flipped = `${cursor.startsWith('A') ? 'B' : 'A'}${cursor.slice(1)}`
  for (const bad of [flipped, 'x'.repeat(201), "'%20OR%201=1--", '', `${cursor}A`]) {
    const answer = await w.get(`/v1/workspaces?limit=2&cursor=${bad}`, headers)
    assert.deepEqual([answer.status, answer.body.error.details.issues[0].path], [422, 'cursor'], bad)
  }
  assert.equal((await w.get(`/v1/workspaces?cursor=${cursor}`)).status, 422)
  assert.equal((await w.get(`/v1/workspaces?cursor=${cursor}&state=creating`, headers)).status, 422)
  for (const query of [
    'limit=0',
    'limit=201',
    'limit=x',
    'limit=1&limit=2',
    'state=nope',
    'include_deleted=maybe',
    'key_prefix=%00',
    'project_id=x',
  ]) {
    assert.equal((await w.get(`/v1/workspaces?${query}`, headers)).status, 422, query)
  }
})

test('every list takes limits of 1 to 200 and only cursors of its own, for its own caller', async () => {
  const { organization_id, project_id } = w.a
  const secret_id = (await w.post(`/v1/projects/${project_id}/secrets`, { name: 'LISTS', value: 'v' })).body.id
  const own: Record<string, string> = { workspace_id: await w.running('lists'), organization_id, project_id, secret_id }
  await w.open('lists-more')
  const foreign = (await w.get('/v1/workspaces?limit=1')).body.next_cursor as string
  const lists = APP_ROUTES.filter((route) => 'cursor' in ((route.query as { properties?: object } | undefined)?.properties ?? {}))
  for (const route of lists) {
    const path = fill(route.path, (name) => own[name] ?? '')
    const { status, body } = await w.get(`${path}?limit=200`, callerOf(route))
    assert.deepEqual([status, Array.isArray(body.data), body.next_cursor], [200, true, null], route.id)
    for (const [field, value] of [
      ['limit', '0'],
      ['limit', '201'],
      ['cursor', 'x'.repeat(201)],
      ['cursor', 'A'.repeat(43)],
      ['cursor', "'%20OR%201=1--"],
      ['cursor', route.id === 'workspaces.list' ? `${foreign}A` : foreign],
    ]) {
      const refused = await w.get(`${path}?${field}=${value}`, callerOf(route))
      assert.deepEqual([refused.status, refused.body.error.details.issues[0].path], [422, field], `${route.id} ${field}=${value}`)
    }
  }
  assert.ok(lists.length >= 6, lists.map(({ id }) => id).join())
})

test('filters choose, and hide sessions and deleted ones by default', async () => {
  const as = (await seeder(w.database, w.clock, w.ids).project(w.a.organization_id, 'filters')).key
  const keys = async (query: string, base = '/v1/workspaces') =>
    (await w.get(`${base}?${query}`, { as })).body.data.map((row: { key: string }) => row.key)
  const opened = await w.open('f-creating', {}, { as })
  const running = await w.open('f_running', {}, { as })
  await w.cell.succeed(running.body.operation.id)
  await w.open('f-session', { lifetime: 'session' }, { as })
  await w.call('DELETE', `/v1/workspaces/${(await w.open('f-deleted', {}, { as })).body.workspace.id}`, { as })
  assert.deepEqual(await keys(''), ['f_running', 'f-creating'])
  assert.deepEqual(await keys('state=creating'), ['f-creating'])
  assert.deepEqual(await keys('key_prefix=f_'), ['f_running'])
  assert.deepEqual(await keys('lifetime=session'), ['f-session'])
  assert.deepEqual(await keys('lifetime=any&include_deleted=true'), ['f-deleted', 'f-session', 'f_running', 'f-creating'])
  assert.deepEqual(await keys('desired_state=deleted'), ['f-deleted'])
  assert.deepEqual(await keys('purpose=template_draft'), [])
  assert.deepEqual(await keys('state=creating', `/v1/organizations/${w.a.organization_id}/workspaces`), ['f-creating'])
  assert.deepEqual(await keys(`project_id=${w.a.project_id}`), [])
  assert.deepEqual(await keys(`organization_id=${w.b.organization_id}`), [])
  const operations = await w.get(`/v1/workspaces/${opened.body.workspace.id}/operations?kind=open&state=queued`, { as })
  assert.deepEqual(
    operations.body.data.map((row: { id: string }) => row.id),
    [opened.body.operation.id],
  )
  assert.equal((await w.get(`/v1/workspaces/${opened.body.workspace.id}/operations?kind=suspend`, { as })).body.data.length, 0)
})

test('a person sees the workspaces of their organizations, nobody else’s', async () => {
  const person = await seeder(w.database, w.clock, w.ids).person(w.b.organization_id, 'member')
  await w.open('b-only', {}, { as: w.b.key })
  const seen = (await w.get('/v1/workspaces?lifetime=any&limit=200', { as: person.token })).body.data as { organization_id: string }[]
  assert.deepEqual([...new Set(seen.map((row) => row.organization_id))], [w.b.organization_id])
  assert.equal((await w.get(`/v1/organizations/${w.a.organization_id}/workspaces`, { as: person.token })).status, 404)
})

test('a listing goes on with the key that replaces another of the project, and with no key of another project', async () => {
  const { cursor, rest } = await (async () => {
    const all = (await w.get('/v1/workspaces?limit=3')).body.data as { id: string }[]
    const first = await w.get('/v1/workspaces?limit=1')
    return { cursor: first.body.next_cursor as string, rest: all.slice(1).map(({ id }) => id) }
  })()
  assert.equal(rest.length, 2)
  const seeds = seeder(w.database, w.clock, w.ids)
  const next = await seeds.key(w.a.organization_id, w.a.project_id)
  const page = await w.get(`/v1/workspaces?limit=2&cursor=${cursor}`, { as: next.key })
  assert.deepEqual([page.status, page.body.data?.map(({ id }: { id: string }) => id)], [200, rest])
  for (const as of [w.a2.key, w.b.key, (await seeds.person(w.a.organization_id, 'member')).token]) {
    assert.equal((await w.get(`/v1/workspaces?limit=2&cursor=${cursor}`, { as })).status, 422)
  }
})
