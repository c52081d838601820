import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import { world, type World } from './support.ts'

let w: World
before(async () => {
  w = await world()
  await w.open('warm-up')
})
after(() => w[Symbol.asyncDispose]())

const json = { 'content-type': 'application/json' }
const open = (body: string, headers: Record<string, string> = {}) =>
  w.call('POST', '/v1/workspaces/open', { body, headers: { ...json, ...headers } })
const keys = (count: number, value = '1') => Array.from({ length: count }, (_, n) => `"k${n}":${value}`).join(',')
const HOSTILE: [string, string, number][] = [
  ['10 MB', `{"key":"${'x'.repeat(10_000_000)}"}`, 413],
  ['depth 10,000, lists', `{"key":${'['.repeat(10_000)}${']'.repeat(10_000)}}`, 422],
  ['depth 100,000, objects', `{"inputs":${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}}`, 422],
  ['inputs nested 9,000 deep', `{"key":"a","template":"base","inputs":{"CITY":${'['.repeat(9000)}${']'.repeat(9000)}}}`, 422],
  ['10^6 keys', `{${keys(1_000_000)}}`, 413],
  ['as many keys as a body holds', `{${keys(90_000)}}`, 422],
  ['the same one level deeper', `{"key":"a","template":"base","caps":{${keys(90_000)}}}`, 422],
  ['as inputs', `{"key":"a","template":"base","inputs":{${keys(80_000, '""')}}}`, 422],
  ['a list of as many', `{"key":"a","template":"base","secrets":[${'1,'.repeat(400_000)}1]}`, 422],
  ['1e400', '{"key":"a","template":"base","caps":{"cpu_millis":1e400}}', 422],
  ['a lone surrogate in the key', '{"key":"\\ud800","template":"base"}', 422],
  ['a lone surrogate in an input', '{"key":"a","template":"base","inputs":{"CITY":"\\ud800"}}', 422],
  ['a BOM', '\ufeff{"key":"a","template":"base"}', 400],
  ['NUL in the key', '{"key":"a\\u0000","template":"base"}', 422],
  ['NUL in the template', '{"key":"a","template":"base\\u0000"}', 422],
  ['NUL in an input', '{"key":"a","template":"base","inputs":{"CITY":"\\u0000"}}', 422],
  ['NUL in an input’s name', '{"key":"a","template":"base","inputs":{"CITY\\u0000":"x"}}', 422],
  ['NUL in the label', '{"key":"a","template":"base","agent_label":"\\u0000"}', 422],
  ['NUL in a secret', '{"key":"a","template":"base","secrets":["\\u0000"]}', 422],
]

/** An idle computer needs less than 100 ms, and a busy one never needs seconds. */
const WORK_MS_MAX = 2000

test('no body causes an internal error, each is refused with little work, and nothing is created', async () => {
  for (const [name, body, status] of HOSTILE) {
    // The best of three counts, because other load is no cost of a refusal.
    const times: number[] = []
    for (let tries = 0; tries < 3; tries++) {
      const start = performance.now()
      const answer = await open(body)
      times.push(performance.now() - start)
      assert.equal(answer.status, status, `${name}: ${JSON.stringify(answer.body).slice(0, 300)}`)
      assert.ok(JSON.stringify(answer.body).length < 20_000, `${name}: the refusal itself is long`)
    }
    assert.ok(Math.min(...times) <= WORK_MS_MAX, `${name}: ${Math.min(...times)} ms`)
    // With a key, the service computes a digest of the whole body.
    const keyed = await open(body, { 'idempotency-key': 'hostile' })
    assert.equal(keyed.status, status, `${name}, with a key: ${JSON.stringify(keyed.body).slice(0, 300)}`)
  }
  const twice = await open('{"key":"first","key":"second","template":"base"}') // as most parsers do, the last duplicate counts (RFC 8259)
  assert.deepEqual([twice.status, twice.body.workspace.key], [202, 'second'])
  const made = (await w.get('/v1/workspaces?limit=200')).body.data.map((row: { key: string }) => row.key)
  assert.deepEqual(made, ['second', 'warm-up'])
})

test('fields that callers may not set are refused by name, and no prototype is changed', async () => {
  const body = JSON.stringify({
    key: 'mass',
    template: 'base',
    id: w.ids.next(),
    organization_id: w.b.organization_id,
    desired_state: 'deleted',
  })
  const more = `${body.slice(0, -1)},"purpose":"template_test","__proto__":{"x":1},"constructor":{"prototype":{"x":1}}}`
  const { status, body: refused } = await open(more)
  assert.equal(status, 422)
  assert.deepEqual(refused.error.details.issues.map((issue: { path: string }) => issue.path).sort(), [
    '__proto__',
    'constructor',
    'desired_state',
    'id',
    'organization_id',
    'purpose',
  ])
  assert.equal((await open('{"key":"mass","template":"base","caps":{"__proto__":{"x":1}}}')).status, 422)
  assert.equal((await open('{"key":"mass","template":"base","inputs":{"__proto__":"1"}}')).status, 422)
  assert.equal((await open('{"key":"mass","template":"__proto__"}')).status, 404)
  assert.deepEqual([({} as { x?: unknown }).x, (await w.get('/v1/workspaces?key_prefix=mass')).body.data], [undefined, []])
})

test('an invalid request id is never reflected', async () => {
  const given = async (id: string) => (await w.get('/v1/me', { headers: { 'x-request-id': id } })).headers.get('x-request-id')
  assert.equal(await given('a'.repeat(64)), 'a'.repeat(64))
  for (const bad of ['a'.repeat(65), 'a'.repeat(7), '<script>alert(1)</script>', 'with spaces in it'])
    assert.notEqual(await given(bad), bad)
  const answer = await raw(`GET /v1/me HTTP/1.1\r\nhost: a\r\nx-request-id: aaaaaaaa\r\nSet-Cookie: x\r\nconnection: close\r\n\r\n`)
  assert.doesNotMatch(answer, /set-cookie/i)
  const twice = await raw(`GET /v1/me HTTP/1.1\r\nhost: a\r\nx-request-id: aaaaaaaa\r\nx-request-id: bbbbbbbb\r\nconnection: close\r\n\r\n`)
  assert.doesNotMatch(twice, /aaaaaaaa|bbbbbbbb/)
})

test('an invalid Idempotency-Key is 422 and creates nothing; a route without one ignores it', async () => {
  const body = '{"key":"no-key","template":"base"}'
  for (const key of ['x'.repeat(256), '', 'a b', 'é', '\t']) {
    const answer = await open(body, { 'idempotency-key': key })
    assert.deepEqual([answer.status, answer.body.error.details.field], [422, 'Idempotency-Key'], key)
  }
  assert.deepEqual((await w.get('/v1/workspaces?key_prefix=no-key')).body.data, [])
  assert.equal((await w.get('/v1/me', { headers: { 'idempotency-key': 'x'.repeat(256) } })).status, 200)
  assert.equal((await open(body, { 'idempotency-key': 'x'.repeat(255) })).status, 202)
})

test('numbers in a query are plain digits, and no other notation of a number', async () => {
  for (const limit of ['0x10', '1e1', '1e400', '5.0', '%2010', '+5', '', 'NaN', 'Infinity', '9'.repeat(400)]) {
    const answer = await w.get(`/v1/workspaces?limit=${limit}`)
    assert.deepEqual([answer.status, answer.body.error.details.issues[0].path], [422, 'limit'], limit)
  }
  assert.equal((await w.get('/v1/workspaces?limit=007')).status, 200)
  for (const query of ['key_prefix=%ED%A0%80', 'key_prefix=%zz']) assert.equal((await w.get(`/v1/workspaces?${query}`)).status, 200, query)
  for (const [query, names] of [
    ['__proto__=1', ['__proto__']],
    ['constructor=1&limit[a]=1', ['constructor', 'limit[a]']],
  ] as const) {
    const { status, body } = await w.get(`/v1/workspaces?${query}`)
    assert.deepEqual([status, body.error.details.issues.map(({ path }: { path: string }) => path)], [422, names], query)
  }
})

test('`Prefer: wait` counts up to 20 and is ignored when invalid; Preference-Applied appears exactly after a wait', async () => {
  const opened = await w.open('prefer')
  const path = `/v1/operations/${opened.body.operation.id}`
  for (const prefer of ['wait=0', 'wait=-1', 'wait=x', 'wait', 'wait=1.5', 'respond-async', 'await=1']) {
    const { status, headers } = await w.get(path, { headers: { prefer } })
    assert.deepEqual([status, headers.get('preference-applied')], [200, null], prefer)
  }
  for (const [prefer, applied] of [
    ['wait=99999999999999999999', 'wait=20'],
    ['respond-async, wait=21', 'wait=20'],
    ['handling=lenient; x=y, Wait = "7"', 'wait=7'],
  ] as const) {
    const answered = { is: false }
    const held = w.get(path, { headers: { prefer } }).finally(() => (answered.is = true))
    // No event reports that the server holds the call, so changes are repeated.
    for (let n = 0; !answered.is && n < 2000; n++) await w.cell.move(opened.body.operation.id, 'running', `${prefer} ${n}`)
    assert.deepEqual([(await held).status, (await held).headers.get('preference-applied')], [200, applied], prefer)
  }
  const elapsed = await w.get(path, { headers: { prefer: 'wait=1' } })
  assert.deepEqual([elapsed.body.state, elapsed.headers.get('preference-applied')], ['running', 'wait=1'])
  await w.cell.succeed(opened.body.operation.id)
  const ended = await w.get(path, { headers: { prefer: 'wait=20' } })
  assert.deepEqual([ended.body.state, ended.headers.get('preference-applied')], ['succeeded', null])
})

test('every unknown method and path is 404 in the envelope, a tunnel 400, and no answer mentions other origins', async () => {
  for (const method of ['OPTIONS', 'TRACE', 'PATCH', 'QUERY', 'PROPFIND', 'LINK', 'PUT']) {
    const answer = await raw(`${method} /v1/me HTTP/1.1\r\nhost: a\r\norigin: http://evil.test\r\nconnection: close\r\n\r\n`)
    assert.match(answer, /^HTTP\/1\.1 404 /, method)
    assert.match(answer, /"code":"not_found"/, method)
    assert.doesNotMatch(answer, /access-control/i, method)
  }
  // `/` is missing, because this route serves a page for browsers.
  for (const path of ['/nothing', '/v1', '/v1/', '/v1/me/', '/V1/me', '/v1//me', '/v1/me%2f', '/v1/workspaces/open/x'])
    assert.deepEqual([(await w.get(path)).status, (await w.get(path)).body.error.code], [404, 'not_found'], path)
  const tunnel = await raw('CONNECT 169.254.169.254:80 HTTP/1.1\r\nhost: 169.254.169.254:80\r\n\r\n')
  assert.match(tunnel, /^HTTP\/1\.1 400 [\s\S]*"code":"bad_request"/)
  const me = await w.get('/v1/me', { headers: { origin: 'http://evil.test' } })
  assert.deepEqual(
    [...me.headers.keys()].filter((name) => name.startsWith('access-control') || name === 'set-cookie'),
    [],
  )
  const head = await w.call('HEAD', '/v1/me')
  assert.deepEqual([head.status, head.body, head.headers.get('content-length')], [200, undefined, me.headers.get('content-length')])
  assert.deepEqual([(await w.call('HEAD', '/v1/me', { as: null })).status, (await w.call('HEAD', '/v1/nope')).status], [401, 404])
})

function raw(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = ''
    const socket = connect(Number(new URL(w.base).port), '127.0.0.1', () => socket.write(text))
    socket.on('data', (chunk) => (answer += String(chunk))).on('end', () => resolve(answer))
    socket.on('error', reject)
  })
}
