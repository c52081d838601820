import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { openBench, type Bench } from '../gateway/support/gateway.ts'
import { world, type World } from './support.ts'

const PAGE = 'https://app.example.com'
const OTHERS = [
  'https://evil.example.com',
  'https://app.example.com:8443',
  'http://app.example.com',
  'null',
  `${PAGE}.evil.test`,
  `${PAGE},`,
]

let w: World
let bench: Bench
before(async () => {
  w = await world({ cors_origins: ['http://localhost:5173', PAGE], edge_requests_per_minute: 100_000 })
  bench = await openBench({ cors_origins: [PAGE] })
})
after(async () => {
  await bench[Symbol.asyncDispose]()
  await w[Symbol.asyncDispose]()
})

const places = () => [
  { name: 'api', url: `${w.base}/v1/me`, methods: 'DELETE, GET, HEAD' },
  { name: 'gateway', url: `${bench.gateway.address}/v1/workspaces/${bench.workspace_id}/files`, methods: 'DELETE, GET, PUT' },
]
const ask = (url: string, method: string, origin: string | null, headers: Record<string, string> = {}) =>
  fetch(url, { method, headers: { ...(origin === null ? {} : { origin }), ...headers } })
const saidOf = ({ headers }: Response) => [...headers.keys()].filter((name) => name.startsWith('access-control')).toSorted()
const readable = (answer: Response) => answer.headers.get('access-control-expose-headers')?.split(', ') ?? []

test('api and gateway tell an allowed page which headers it may send, for ten minutes', async () => {
  for (const { name, url, methods } of places()) {
    const answer = await ask(url, 'OPTIONS', PAGE, { 'access-control-request-method': 'POST' })
    assert.deepEqual(
      [answer.status, answer.headers.get('access-control-allow-origin'), answer.headers.get('access-control-allow-methods')],
      [204, PAGE, methods],
      name,
    )
    assert.deepEqual(
      [answer.headers.get('access-control-max-age'), answer.headers.get('vary')],
      [String(LIMITS.cors.preflight_seconds), 'Origin'],
    )
    const sent = answer.headers.get('access-control-allow-headers')?.toLowerCase().split(', ') ?? []
    for (const header of ['authorization', 'content-type', 'idempotency-key', 'if-match', 'prefer', 'range', 'x-request-id'])
      assert.ok(sent.includes(header), `${name}: ${header}`)
    assert.ok(answer.headers.get('x-request-id'))
    assert.equal(answer.headers.get('access-control-allow-credentials'), null)
  }
})

test('an allowed page reads answers and refusals, with the headers that clients need', async () => {
  const me = await ask(`${w.base}/v1/me`, 'GET', 'http://localhost:5173', { authorization: `Bearer ${w.a.key}` })
  assert.deepEqual([me.status, me.headers.get('access-control-allow-origin')], [200, 'http://localhost:5173'])
  for (const header of ['X-Request-Id', 'Retry-After', 'ETag', 'Preference-Applied', 'Idempotent-Replayed'])
    assert.ok(readable(me).includes(header), header)
  const refusals = [
    [`${w.base}/v1/me`, 401],
    [`${w.base}/v1/nowhere`, 404],
    [`${bench.gateway.address}/v1/workspaces/${bench.workspace_id}/files?path=/x`, 401],
  ] as const
  for (const [url, status] of refusals) {
    const answer = await ask(url, 'GET', PAGE)
    assert.deepEqual([answer.status, answer.headers.get('access-control-allow-origin')], [status, PAGE], url)
  }
  const read = await bench.call('PUT', '/files?path=/home/user/page', { body: 'x', headers: { origin: PAGE } })
  assert.deepEqual([read.status, read.headers.get('access-control-allow-origin')], [200, PAGE])
  const streamed = await bench.call('GET', '/files?path=/home/user/page', { headers: { origin: PAGE } })
  assert.deepEqual([streamed.status, streamed.headers.get('access-control-allow-origin'), await streamed.text()], [200, PAGE, 'x'])
  for (const header of ['X-File-Size', 'X-File-Revision', 'X-Served-From', 'X-Tree-Revision', 'Content-Range', 'Retry-After'])
    assert.ok(readable(streamed).includes(header), header)
})

test('a page of another origin is told nothing, and programs get no CORS headers', async () => {
  for (const origin of [...OTHERS, null]) {
    for (const { url } of places()) {
      const asked = await ask(url, 'OPTIONS', origin, { 'access-control-request-method': 'POST' })
      assert.deepEqual([asked.status, saidOf(asked)], [404, []], `${origin} ${url}`)
    }
    const me = await ask(`${w.base}/v1/me`, 'GET', origin, { authorization: `Bearer ${w.a.key}` })
    assert.deepEqual([me.status, saidOf(me), me.headers.get('vary')], [200, [], 'Origin'], String(origin))
  }
})

test('an OPTIONS request without a method, or of an unknown path, is no preflight', async () => {
  for (const { url } of places()) assert.equal((await ask(url, 'OPTIONS', PAGE)).status, 404)
  assert.equal((await ask(`${w.base}/v1/nowhere`, 'OPTIONS', PAGE, { 'access-control-request-method': 'GET' })).status, 404)
})

test('preflights count towards the edge limit, and a page can read that refusal', async () => {
  await using limited = await world({ cors_origins: [PAGE], edge_requests_per_minute: 1 })
  const preflight = () => ask(`${limited.base}/v1/me`, 'OPTIONS', PAGE, { 'access-control-request-method': 'GET' })
  assert.equal((await preflight()).status, 204)
  const refused = await preflight()
  assert.deepEqual(
    [refused.status, refused.headers.get('retry-after'), refused.headers.get('access-control-allow-origin')],
    [429, '60', PAGE],
  )
})
