import assert from 'node:assert/strict'
import { request } from 'node:http'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import pino from 'pino'
import { systemClock } from '../lib/clock.ts'
import { fail } from '../lib/fail.ts'
import { createIds } from '../lib/ids.ts'
import type { Arrival, Who } from './call.ts'
import { bind } from '../../tests/support/bind.ts'
import { createServer, type ServerHandle } from './pipeline.ts'
import { tool_caller } from '../../tests/support/tool-caller.ts'
import { bare, broken, cellPost, cellStream, get, post } from '../../tests/support/pipeline-routes.ts'

const who: Who = { type: 'api_key', id: 'k', key_id: 'k', organization_id: 'o', project_id: 'p', tool_permissions: [] }
const events: string[] = []
const aborted: Promise<void>[] = []
const shared = {
  deps: {},
  clock: systemClock,
  ids: createIds(systemClock),
  logger: pino({ level: 'silent' }),
  validate_answers: true,
  authenticate: async (arrival: Arrival) => {
    if (arrival.headers.authorization !== 'Bearer good') throw fail('unauthenticated', null, 'No')
    return who
  },
}
const byToken = async (arrival: Arrival): Promise<Who> => {
  await shared.authenticate(arrival)
  return tool_caller
}
let app: ServerHandle
let cell: ServerHandle
let base: string
let cellBase: string

before(async () => {
  app = createServer({
    ...shared,
    surface: 'app',
    idempotency: {
      keys: { sign: (_bytes, text) => Buffer.from(text), verifies: (signed, _bytes, text) => signed.equals(Buffer.from(text)) },
      replay: async () => null,
      keepRefusal: async (call, failure) => {
        if (call.idempotency?.key === 'unkept') throw fail('dependency_unavailable', null, 'The service cannot reach its database')
        events.push(`kept ${failure.code}`)
        return null
      },
    },
    routes: [
      bind(post, async (call) => {
        if (call.body.name === 'gone') throw fail('not_found', null, 'Not there')
        return { status: 200, body: { body: call.body, limit: call.query.limit, wait: call.wait_seconds } }
      }),
      bind(bare, async () => ({ status: 200, body: { ok: true } })),
      bind(get, async () => ({ status: 200, body: { ok: true } })),
      bind(broken, async (call) => {
        if (call.query.how === 'schema') return { status: 200, body: { ok: 'yes' } }
        if (call.query.how === 'status') return { status: 201 }
        if (call.query.how === 'reason') throw fail('conflict', 'not_running', 'undeclared')
        if (call.query.how === 'database')
          throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED', syscall: 'connect' })
        throw new Error('secret internals')
      }),
    ],
  })
  cell = createServer<object, Disposable>({
    ...shared,
    authenticate: byToken,
    surface: 'cell',
    admit: async () => ({ [Symbol.dispose]: () => void events.push('released') }),
    routes: [
      bind(cellPost, async () => ({ status: 200 })),
      bind(cellStream, async (call) => ({
        stream: async (response) => {
          aborted.push(new Promise((resolve) => call.signal.addEventListener('abort', () => resolve())))
          response.writeHead(200, { 'content-type': 'application/x-ndjson' })
          response.write('1\n')
          await new Promise<void>((resolve) => call.signal.addEventListener('abort', () => resolve()))
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

const ID = '01900000-0000-7000-8000-000000000000'
const auth = { authorization: 'Bearer good' }
const json = { ...auth, 'content-type': 'application/json' }

async function send(url: string, init: RequestInit) {
  const response = await fetch(url, init)
  const text = await response.text()
  const body = text === '' ? undefined : JSON.parse(text)
  if (body?.error) assert.equal(body.error.request_id, response.headers.get('x-request-id'))
  assert.ok(response.headers.get('x-request-id'))
  return { status: response.status, body, headers: response.headers, code: body?.error?.code }
}
const echo = (body: string | Uint8Array<ArrayBuffer> | undefined, headers: Record<string, string> = json, query = '', id = ID) =>
  send(`${base}/v1/echo/${id}${query}`, { method: 'POST', headers, ...(body === undefined ? {} : { body }) })

test('a valid request gets an answer of the contract', async () => {
  const { status, body } = await echo('{"name":"a"}', { ...json, prefer: 'respond-async, wait=30' })
  assert.deepEqual({ status, body }, { status: 200, body: { body: { name: 'a' }, limit: 50, wait: 20 } })
})

test('authentication is checked before the body', async () => {
  assert.equal((await echo('{', { 'content-type': 'application/json' })).code, 'unauthenticated')
})

test('a malformed content type is refused after authentication and routing', async () => {
  const garbage = { 'content-type': 'garbage' }
  assert.equal((await echo('{"name":"a"}', garbage)).code, 'unauthenticated')
  assert.equal((await echo('{"name":"a"}', { ...auth, ...garbage })).code, 'unsupported_media_type')
  assert.equal((await send(`${base}/v1/nope`, { method: 'POST', headers: garbage, body: 'x' })).code, 'not_found')
  const bare_route = { method: 'DELETE', headers: { ...auth, ...garbage } }
  assert.equal((await send(`${base}/v1/bare`, bare_route)).status, 200) // the header is ignored without a body
  const cellEcho = (headers: Record<string, string>) => send(`${cellBase}/v1/echo`, { method: 'POST', headers, body: '{"name":"a"}' })
  assert.deepEqual([(await cellEcho(garbage)).status, (await cellEcho({ ...auth, ...garbage })).code], [401, 'bad_request'])
})

test('an unknown Expect header is ignored', async () => {
  const expecting = (headers: Record<string, string>) =>
    new Promise<{ status: number | undefined; request_id: unknown }>((resolve, reject) => {
      const asked = request(`${base}/v1/bare`, { method: 'DELETE', headers: { ...headers, expect: 'wonders' } }, (response) => {
        response.resume()
        resolve({ status: response.statusCode, request_id: response.headers['x-request-id'] })
      })
      asked.on('error', reject).end()
    })
  const headers = { 'x-request-id': 'expecting' }
  assert.deepEqual(await expecting({ ...auth, ...headers }), { status: 200, request_id: 'expecting' })
  assert.deepEqual(await expecting(headers), { status: 401, request_id: 'expecting' })
})

test('a body that is not JSON is 400 or 415, one that is too large 413', async () => {
  assert.deepEqual([(await echo('{')).status, (await echo('{')).code], [400, 'bad_request'])
  assert.equal((await echo(undefined)).status, 400)
  assert.equal((await echo('')).status, 400)
  assert.equal((await echo('\ufeff{}')).status, 400)
  assert.equal((await echo(new Uint8Array([0x22, 0xff, 0x22]))).status, 400)
  assert.equal((await echo('{"name":"a"}', { ...auth, 'content-type': 'text/plain' })).code, 'unsupported_media_type')
  assert.equal((await echo('{"name":"a"}', { ...auth, 'content-type': 'nonsense' })).code, 'unsupported_media_type')
  assert.equal((await echo(new TextEncoder().encode('{}'), auth)).code, 'unsupported_media_type')
  assert.equal((await echo('{"name":"a"}', { ...auth, 'content-type': 'application/json; charset=utf-8' })).status, 200)
  const large = await echo(`{"name":"${'a'.repeat(3000)}"}`)
  assert.deepEqual([large.status, large.code, large.body.error.details], [413, 'payload_too_large', { max_bytes: 2000 }])
})

test('all issues are listed, including unknown properties', async () => {
  const { status, body } = await echo(
    '{"extra":1,"caps":{"nope":1,"cpu_millis":"1"},"__proto__":{"a":1},"constructor":{}}',
    json,
    '?limit=0&flag=maybe',
  )
  assert.equal(status, 422)
  assert.deepEqual(body.error.details.issues.map((issue: { path: string }) => issue.path).sort(), [
    '__proto__',
    'caps.cpu_millis',
    'caps.nope',
    'constructor',
    'extra',
    'flag',
    'limit',
    'name',
  ])
  assert.equal(({} as { a?: unknown }).a, undefined)
})

test('out-of-range numbers, lone surrogates and control characters are refused, and deep nesting does not crash', async () => {
  for (const bad of ['{"name":"a","caps":{"cpu_millis":1e400}}', '{"name":"\\ud800"}', '{"name":"a\\u0000"}', '[]', 'null', '"x"']) {
    assert.equal((await echo(bad)).status, 422, bad)
  }
  assert.equal((await echo(`{"name":${'['.repeat(900)}${']'.repeat(900)}}`)).status, 422)
})

test('an invalid id is 422 on App', async () => {
  const { status, body } = await echo('{"name":"a"}', json, '', ID.toUpperCase().replace('0190', '019A'))
  assert.deepEqual([status, body.error.details.issues[0].path], [422, 'id'])
})

test('an invalid id of any length that the HTTP parser accepts is 422 on App', async () => {
  for (const characters of [4096, 4097, 15_000]) {
    const { status, body } = await echo('{"name":"a"}', json, '', 'a'.repeat(characters))
    assert.deepEqual([status, body.error.details.issues[0].path], [422, 'id'])
  }
  assert.equal((await echo('{"name":"a"}', {}, '', 'a'.repeat(15_000))).status, 401)
})

test('an idempotency key has 1-255 visible ASCII characters, and a decided refusal is kept under it', async () => {
  for (const key of ['', 'a b', 'é', 'x'.repeat(256)])
    assert.equal((await echo('{"name":"a"}', { ...json, 'idempotency-key': key })).status, 422, key)
  events.length = 0
  assert.equal((await echo('{"name":"gone"}', { ...json, 'idempotency-key': 'k' })).status, 404)
  assert.deepEqual(events, ['kept not_found'])
  const unkept = await echo('{"name":"gone"}', { ...json, 'idempotency-key': 'unkept' })
  assert.deepEqual([unkept.status, unkept.code], [503, 'dependency_unavailable']) // not stored, so a repeat may get another result
})

test('a body may have 32 levels: one more is 422 on App and 400 on the gateway, whatever the body is', async () => {
  const nested = (levels: number) => `{"name":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`
  const refusals = async (levels: number) => {
    const body = nested(levels)
    const answers = [await echo(body), await send(`${cellBase}/v1/echo`, { method: 'POST', headers: json, body })]
    return answers.map(({ status, body: { error } }) => [status, error.code, error.details.issues[0].message])
  }
  const too_deep = 'must not be nested deeper than 32 levels'
  for (const levels of [33, 900]) {
    assert.deepEqual(await refusals(levels), [
      [422, 'validation_failed', too_deep],
      [400, 'bad_request', too_deep],
    ])
  }
  assert.deepEqual(await refusals(32), [
    [422, 'validation_failed', 'must be string'],
    [422, 'validation_failed', 'must be string'],
  ])
})

test('a route without a body accepts none or {}', async () => {
  const bareDelete = (init: RequestInit) => send(`${base}/v1/bare`, { method: 'DELETE', ...init })
  assert.equal((await bareDelete({ headers: auth })).status, 200)
  assert.equal((await bareDelete({ headers: json, body: '{}' })).status, 200)
  assert.equal((await bareDelete({ headers: json, body: '{"a":1}' })).status, 422)
  assert.equal((await bareDelete({ headers: json, body: '{' })).status, 400)
})

test('a valid client request id is kept, and an invalid one replaced', async () => {
  const get = async (id: string) => (await send(`${base}/v1/bare`, { headers: { 'x-request-id': id } })).headers.get('x-request-id')
  assert.equal(await get('abcd.1234_x-y'), 'abcd.1234_x-y')
  for (const bad of ['short', 'x'.repeat(65), '<script>alert', 'a b c d e f']) assert.notEqual(await get(bad), bad)
})

test('unknown routes, methods and broken addresses answer in the envelope, HEAD has no body', async () => {
  assert.equal((await send(`${base}/v1/nope`, {})).code, 'not_found')
  assert.equal((await send(`${base}/v1/bare/`, {})).code, 'not_found')
  assert.equal((await send(`${base}/v1/bare`, { method: 'PATCH' })).code, 'not_found')
  assert.equal((await send(`${base}/v1/bare`, { method: 'OPTIONS' })).code, 'not_found')
  assert.equal((await send(`${base}/v1/echo/%zz`, { method: 'POST' })).code, 'bad_request')
  const head = await send(`${base}/v1/bare`, { method: 'HEAD' })
  assert.deepEqual([head.status, head.body], [200, undefined])
  assert.equal((await send(`${base}/v1/nope`, { method: 'HEAD' })).status, 404)
})

test('undeclared answers become internal errors, and an internal error reveals nothing', async () => {
  for (const how of ['schema', 'status', 'reason', 'throw']) {
    const { status, body } = await send(`${base}/v1/broken?how=${how}`, {})
    assert.deepEqual([status, body.error.code, body.error.retryable, body.error.details], [500, 'internal_error', true, undefined])
    assert.doesNotMatch(JSON.stringify(body), /secret internals/)
  }
})

test('a database that is down is a retryable 503', async () => {
  const { status, body, headers } = await send(`${base}/v1/broken?how=database`, {})
  assert.deepEqual([status, body.error.code, body.error.retryable, headers.get('retry-after')], [503, 'dependency_unavailable', true, '1'])
})

test('a request that the HTTP parser refuses is answered in the envelope', async () => {
  const raw = (text: string) =>
    new Promise<string>((resolve, reject) => {
      const socket = connect(Number(new URL(base).port), '127.0.0.1', () => socket.write(text))
      let answer = ''
      socket
        .on('data', (chunk) => (answer += String(chunk)))
        .on('end', () => resolve(answer))
        .on('error', reject)
    })
  for (const [text, status] of [
    ['nonsense\r\n\r\n', 400],
    [`GET /v1/bare HTTP/1.1\r\nhost: a\r\nx: ${'a'.repeat(20_000)}\r\n\r\n`, 431],
  ] as const) {
    const answer = await raw(text)
    assert.ok(answer.startsWith(`HTTP/1.1 ${status} `), answer)
    const { error } = JSON.parse(answer.split('\r\n\r\n')[1] ?? '') as { error: { code: string; request_id: string } }
    assert.equal(error.code, 'bad_request')
    assert.match(answer, new RegExp(`x-request-id: ${error.request_id}`))
  }
})

test('a connection that the kernel cannot accept does not end the server', async () => {
  for (const { http } of [app, cell]) http.emit('error', Object.assign(new Error('accept ENOBUFS'), { code: 'ENOBUFS' }))
  assert.equal((await fetch(`${base}/nope`)).status, 404)
})

test('on the cell unknown fields and bad parameters are 400, bad values 422', async () => {
  const cellEcho = (body: string, query = '') => send(`${cellBase}/v1/echo${query}`, { method: 'POST', headers: json, body })
  assert.equal((await cellEcho('{"name":"a"}')).status, 200)
  assert.deepEqual([(await cellEcho('{"name":"a","x":1}')).status, (await cellEcho('{"name":"a"}', '?n=x')).status], [400, 400])
  assert.equal((await cellEcho('{"name":1}')).status, 422)
  assert.equal((await send(`${cellBase}/v1/echo`, { method: 'POST', headers: auth, body: 'x' })).code, 'bad_request')
})

test('a ticket is released and the signal ends when the caller leaves a stream', async () => {
  events.length = 0
  const controller = new AbortController()
  const response = await fetch(`${cellBase}/v1/stream`, { headers: auth, signal: controller.signal })
  await response.body?.getReader().read()
  controller.abort()
  await aborted[0]
  assert.ok(response.headers.get('x-request-id'))
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(events, ['released'])
})

test('a ticket is kept until the handler ends, even after its caller has left', async () => {
  const [begun, work, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let done = false
  const slow = createServer<object, Disposable>({
    ...shared,
    authenticate: byToken,
    surface: 'cell',
    admit: async () => ({
      [Symbol.dispose]() {
        assert.ok(done)
        released.resolve()
      },
    }),
    routes: [
      bind(cellPost, async (call) => {
        const left = new Promise<void>((resolve) => call.signal.addEventListener('abort', () => resolve()))
        begun.resolve()
        await left
        await work.promise
        done = true
        return { status: 200 }
      }),
    ],
  })
  const address = await slow.listen({ host: '127.0.0.1', port: 0 })
  const controller = new AbortController()
  const call = assert.rejects(
    fetch(`${address}/v1/echo`, { method: 'POST', headers: json, body: '{"name":"a"}', signal: controller.signal }),
  )
  await begun.promise
  controller.abort()
  await call
  setImmediate(() => work.resolve())
  await released.promise
  await slow.close()
})
