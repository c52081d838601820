// Tests the declarations of routes other than schemas, on artificial routes.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import pino from 'pino'
import { systemClock } from '../lib/clock.ts'
import { fail, Failure } from '../lib/fail.ts'
import { createIds } from '../lib/ids.ts'
import type { PersonPrincipal, Who } from './call.ts'
import { bind } from '../../tests/support/bind.ts'
import { createServer, type ServerHandle } from './pipeline.ts'
import { tool_caller } from '../../tests/support/tool-caller.ts'
import { managed, named, post, sensitive, signIn, typed } from '../../tests/support/pipeline-routes.ts'

const NOW = new Date('2026-01-01T00:00:00Z')
const ID = '01900000-0000-7000-8000-000000000000'
const key: Who = { type: 'api_key', id: 'k', key_id: 'k', organization_id: 'o', project_id: 'p', tool_permissions: [] }
/** Callers by credential. Each person's role applies to all projects. */
const WHO: Record<string, Who> = {
  key,
  toolkey: { ...key, tool_permissions: ['git'] },
  owner: person('owner', null),
  fresh: person('owner', 9.9),
  stale: person('owner', 10),
  member: person('member', 1),
  nobody: { ...person('owner', 1), memberships: [] },
}

function person(role: PersonPrincipal['memberships'][number]['role'], minutes: number | null): PersonPrincipal {
  const stepped_up_at = minutes === null ? null : new Date(NOW.getTime() - minutes * 60_000)
  return { type: 'user', id: 'u', email: 'a@b.c', memberships: [{ organization_id: 'o', role }], session: { id: 's', stepped_up_at } }
}

const ok = async () => ({ status: 200, body: { ok: true } })
const shared = {
  deps: {},
  clock: { ...systemClock, now: () => NOW },
  ids: createIds(systemClock),
  logger: pino({ level: 'silent' }),
  validate_answers: true,
}

let app: ServerHandle
let cell: ServerHandle
let base: string
let cellBase: string
before(async () => {
  app = createServer({
    ...shared,
    surface: 'app',
    authenticate: async ({ headers }) => WHO[headers.authorization ?? 'key'] ?? key,
    roleOf: async (_call, { memberships: [membership] }) => {
      if (membership === undefined) throw fail('not_found', null, 'There is no such project')
      return membership.role
    },
    routes: [
      bind(post, async ({ body, query }) => ({ status: 200, body: { body, limit: query.limit, wait: 0 } })),
      bind(sensitive, ok),
      bind(managed, ok),
      bind(signIn, ok),
      bind(named, async ({ params }) => {
        if (params.slug === 'gone') throw fail('not_found', null, 'Not there')
        const details = { mode: params.slug === 'wrong' ? 'no mode' : 'processful', requested_mode: 'file_first' }
        if (params.slug === 'whole' || params.slug === 'wrong') throw new Failure('conflict', 'mode_mismatch', 'No', { details })
        return { status: 200, body: params }
      }),
    ],
  })
  cell = createServer({
    ...shared,
    surface: 'cell',
    authenticate: async () => tool_caller,
    routes: [
      bind(typed, async ({ query }) => ({
        stream: async (response) => {
          response.writeHead(query.status ?? 200, { 'content-type': query.type })
          response.end('x')
        },
      })),
    ],
  })
  base = await app.listen({ host: '127.0.0.1', port: 0 })
  cellBase = await cell.listen({ host: '127.0.0.1', port: 0 })
})
after(async () => {
  await app.close()
  await cell.close()
})

async function get(url: string, init: RequestInit = {}) {
  const response = await fetch(url, init)
  const text = await response.text()
  return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : text, headers: response.headers }
}

test('a route is served at each of its paths with the parameters of the called path', async () => {
  const short = await get(`${base}/v1/named/a`)
  const long = await get(`${base}/v1/organizations/${ID}/named/a`)
  assert.deepEqual([short.status, short.body, long.status, long.body], [200, { slug: 'a' }, 200, { organization_id: ID, slug: 'a' }])
  const bad = await get(`${base}/v1/organizations/x/named/a`)
  assert.deepEqual([bad.status, bad.body.error.details.issues[0].path], [422, 'organization_id'])
})

test('a stream can start only with a content type that its status declares', async () => {
  const ask = (type: string, status = 200) => get(`${cellBase}/v1/typed?type=${encodeURIComponent(type)}&status=${status}`)
  for (const type of ['text/html', 'text/plain; charset=utf-8']) assert.deepEqual([(await ask(type)).status, type], [200, type])
  for (const undeclared of [ask('image/png'), ask('text/html', 206)]) {
    const { status, body } = await undeclared
    assert.deepEqual([status, body.error.code], [500, 'internal_error'])
  }
})

test('a route accepts the keys and roles that it declares, and requires its password check', async () => {
  const said = async (method: string, path: string) =>
    Promise.all(
      Object.keys(WHO).map(async (as) => {
        const { status, body } = await get(`${base}${path}`, { method, headers: { authorization: as } })
        return [as, status === 200 ? '200' : `${status} ${body.error.code}`]
      }),
    ).then(Object.fromEntries)
  assert.deepEqual(await said('POST', `/v1/projects/${ID}/sensitive`), {
    key: '403 forbidden',
    toolkey: '403 forbidden',
    owner: '403 step_up_required',
    fresh: '200',
    stale: '403 step_up_required',
    member: '403 forbidden', // the role is checked first: a password would not help
    nobody: '404 not_found',
  })
  const people = { owner: '200', fresh: '200', stale: '200' }
  assert.deepEqual(await said('PUT', `/v1/projects/${ID}/managed`), {
    ...people,
    key: '403 forbidden',
    toolkey: '200',
    member: '403 forbidden',
    nobody: '404 not_found',
  })
  assert.deepEqual(await said('GET', '/v1/auth/session'), {
    ...people,
    key: '401 unauthenticated',
    toolkey: '401 unauthenticated',
    member: '200',
    nobody: '200',
  })
})

test('a server that cannot read roles refuses to start with a route that needs them', () => {
  const unable = () => createServer({ ...shared, surface: 'app', authenticate: async () => key, routes: [bind(managed, ok)] })
  assert.throws(unable, /managed.put asks for a role/)
})

test('a misspelt name gets a suggestion, in the query and in the body', async () => {
  const { status, body } = await get(`${cellBase}/v1/typed?type=text/html&statsu=200&zzz=1`)
  assert.deepEqual(
    [status, body.error.code, body.error.details.issues],
    [
      400,
      'bad_request',
      [
        { path: 'statsu', message: 'is not a known parameter: did you mean status?', nearest: 'status' },
        { path: 'zzz', message: 'is not a known parameter' },
      ],
    ],
  )
  const json = { 'content-type': 'application/json' }
  const slip = await get(`${base}/v1/echo/${ID}`, { method: 'POST', headers: json, body: '{"name":"a","caps":{"cpu_milis":1},"Cap":{}}' })
  assert.deepEqual(
    slip.body.error.details.issues.map(({ path, nearest }: { path: string; nearest?: string }) => [path, nearest]).sort(),
    [['Cap', 'caps'], ['caps.cpu_milis', 'cpu_millis']], // prettier-ignore
  )
})

test('a 404 for a wrong method lists the methods of the path, one for an unknown path nothing', async () => {
  const wrong = await get(`${base}/v1/organizations/${ID}/named/a`, { method: 'PUT' })
  assert.deepEqual([wrong.status, wrong.body.error.code, wrong.headers.get('allow')], [404, 'not_found', 'GET, HEAD'])
  const on_cell = await get(`${cellBase}/v1/typed`, { method: 'HEAD' })
  assert.deepEqual([on_cell.status, on_cell.headers.get('allow')], [404, 'GET'])
  assert.equal((await get(`${base}/v1/nothing`)).headers.get('allow'), null)
})

test('answers are not cached unless declared', async () => {
  const answers = await Promise.all([
    get(`${base}/v1/named/a`),
    get(`${base}/v1/named/gone`),
    get(`${base}/v1/nothing`),
    get(`${cellBase}/v1/typed?type=text/html`),
  ])
  assert.deepEqual(
    answers.map(({ status, headers }) => [status, headers.get('cache-control')]),
    [200, 404, 404, 200].map((status) => [status, 'no-store']),
  )
})

test('details that differ from the contract are internal errors where answers are checked', async () => {
  const ask = (slug: string) => get(`${base}/v1/named/${slug}`)
  const [whole, wrong] = [await ask('whole'), await ask('wrong')]
  assert.deepEqual([whole.status, whole.body.error.details.mode], [409, 'processful'])
  assert.deepEqual([wrong.status, wrong.body.error.code], [500, 'internal_error'])
})
