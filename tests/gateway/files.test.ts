import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, afterEach, before, test } from 'node:test'
import { sha256 } from './support/fake-agent.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
before(async () => {
  bench = await openBench()
})
afterEach(() => {
  bench.agent.script = null
})
after(() => bench[Symbol.asyncDispose]())

const at = (path: string) => `/files?path=${encodeURIComponent(path)}`
const put = (path: string, body: RequestInit['body'], headers: Record<string, string> = {}) =>
  bench.call('PUT', at(path), { body: body ?? null, headers, ...(body instanceof ReadableStream ? { duplex: 'half' } : {}) })
const get = (path: string, headers: Record<string, string> = {}) => bench.call('GET', path, { headers })

test('a write is acknowledged with its digest, and read back with size and revision', async () => {
  const bytes = Buffer.from([0, 255, 128, 10])
  const response = await put('/a', bytes, { 'content-type': 'text/plain' })
  assert.equal(response.status, 200)
  assert.deepEqual(await response.json(), { path: '/a', bytes_written: 4, sha256: sha256(bytes), durable: true, revision: sha256(bytes) })
  const read = await get(at('/a'))
  assert.equal(read.status, 200)
  assert.ok(Buffer.from(await read.arrayBuffer()).equals(bytes))
  assert.deepEqual(
    ['content-type', 'content-length', 'x-file-size', 'x-file-revision'].map((name) => read.headers.get(name)),
    ['application/octet-stream', '4', '4', sha256(bytes)],
  )
})

test('an empty body, and one without a content type, are written', async () => {
  assert.equal((await put('/empty', '')).status, 200)
  assert.equal(bench.agent.files.get('/empty')?.length, 0)
  assert.equal((await bench.call('PUT', at('/none'))).status, 200)
})

test('append, mode and create_parents reach the agent', async () => {
  await put('/log', 'a')
  await bench.call('PUT', `${at('/log')}&append=true&mode=0640&create_parents=true`, { body: 'b' })
  assert.equal(bench.agent.files.get('/log')?.toString(), 'ab')
  assert.equal(bench.agent.seen.at(-1)?.url, '/files?path=%2Flog&append=true&create_parents=true&mode=0640')
})

const READS: [string, Record<string, string>, number, string, string | null][] = [
  ['', { range: 'bytes=2-4' }, 206, 'cde', 'bytes 2-4/10'],
  ['', { range: 'bytes=0-0' }, 206, 'a', 'bytes 0-0/10'],
  ['', { range: 'bytes=8-99' }, 206, 'ij', 'bytes 8-9/10'],
  ['&offset=2&length=3', {}, 200, 'cde', null],
  ['&offset=7', {}, 200, 'hij', null],
  ['&length=2', {}, 200, 'ab', null],
  ['&offset=10', {}, 200, '', null],
  ['&length=0', {}, 200, '', null],
]
for (const [query, headers, status, text, range] of READS) {
  test(`reading ten bytes with '${query}${headers['range'] ?? ''}' gives '${text}'`, async () => {
    bench.agent.files.set('/ten', Buffer.from('abcdefghij'))
    const response = await get(`${at('/ten')}${query}`, headers)
    assert.deepEqual([response.status, await response.text(), response.headers.get('content-range')], [status, text, range])
    assert.equal(response.headers.get('x-file-size'), '10')
  })
}

for (const range of [
  'bytes=10-12',
  'bytes=-3',
  'bytes=3-',
  'bytes=0-1,3-4',
  'bytes=4-2',
  'items=0-1',
  'bytes=a-b',
  'bytes=0-99999999999999999999',
]) {
  test(`Range: ${range} of ten bytes is 416 with details.size`, async () => {
    bench.agent.files.set('/ten', Buffer.from('abcdefghij'))
    const response = await get(at('/ten'), { range })
    const { error } = (await response.json()) as { error: { code: string; details: object } }
    assert.deepEqual([response.status, error.code, error.details], [416, 'range_not_satisfiable', { size: 10 }])
  })
}

test('a Range with offset or length is 400, and one for a missing file is 404', async () => {
  assert.equal(await refusalOf(await get(`${at('/ten')}&offset=1`, { range: 'bytes=0-1' })), '400 bad_request')
  assert.equal(await refusalOf(await get(at('/missing'), { range: 'bytes=-1' })), '404 not_found/path_not_found')
})

// Invalid paths and queries. The agent resolves `..` inside the guest.
const PATHS: [string, string][] = [
  ['path=', '422 validation_failed/invalid_path'],
  ['path=home', '422 validation_failed/invalid_path'],
  ['path=..%2f..%2fetc', '422 validation_failed/invalid_path'],
  ['path=%2fa%00b', '422 validation_failed/invalid_path'],
  ['path=/..%c0%af', '422 validation_failed/invalid_path'],
  ['path=/%ff', '422 validation_failed/invalid_path'],
  ['path=/%ed%a0%80', '422 validation_failed/invalid_path'],
  [`path=/${'a'.repeat(4096)}`, '422 validation_failed/invalid_path'],
  [`path=/${'%C3%A9'.repeat(2048)}`, '422 validation_failed/invalid_path'],
  ['path=/%zz', '400 bad_request'],
  ['path=/a&path=/b', '400 bad_request'],
  ['', '400 bad_request'],
  ['other=/a', '400 bad_request'],
]
for (const [query, refusal] of PATHS) {
  test(`?${query.slice(0, 40)} is ${refusal} on every route with a path, and reaches no machine`, async () => {
    const before = bench.agent.seen.length
    for (const [method, route] of [
      ['GET', '/files'],
      ['PUT', '/files'],
      ['DELETE', '/files'],
      ['GET', '/files/stat'],
      ['GET', '/files/list'],
    ] as const) {
      assert.equal(await refusalOf(await bench.call(method, `${route}?${query}`)), refusal, `${method} ${route}`)
    }
    assert.equal(bench.agent.seen.length, before)
  })
}

test('a path reaches the agent unchanged: .., //, spaces, plus signs, % and Unicode', async () => {
  for (const path of [
    '/home/user/../../etc/shadow',
    '//etc//passwd',
    '/a b',
    '/a+b',
    '/100%',
    '/é漢',
    '/a&b=c#d?e',
    `/${'a'.repeat(4095)}`,
  ]) {
    bench.agent.files.set(path, Buffer.from(path))
    assert.equal(await (await get(at(path))).text(), path)
  }
  bench.agent.files.set('/a b', Buffer.from('plus'))
  assert.equal(await (await get('/files?path=/a+b')).text(), 'plus', 'a plus in a query is a space')
})

test('offset, length, limit and mode are checked', async () => {
  for (const query of ['&offset=-1', '&offset=x', '&length=1.5'])
    assert.equal(await refusalOf(await get(`${at('/a')}${query}`)), '400 bad_request')
  for (const limit of ['0', '10001', 'x']) assert.equal(await refusalOf(await get(`/files/list?path=/&limit=${limit}`)), '400 bad_request')
  for (const mode of ['999', '0x1', '17777', '8', '-1', '1099511627776']) {
    assert.equal(await refusalOf(await bench.call('PUT', `${at('/a')}&mode=${mode}`, { body: 'x' })), '422 validation_failed', mode)
    assert.equal(await refusalOf(await bench.call('POST', '/files/mkdir', { json: { path: '/d', mode } })), '422 validation_failed', mode)
  }
})

test('paths are made, moved, described, listed and removed', async () => {
  assert.equal((await bench.call('POST', '/files/mkdir', { json: { path: '/d', parents: true, mode: '0700' } })).status, 201)
  assert.equal((await bench.call('POST', '/files/move', { json: { from: '/a', to: '/b', overwrite: true } })).status, 200)
  assert.equal(await refusalOf(await bench.call('POST', '/files/mkdir', { json: { path: 'd' } })), '422 validation_failed/invalid_path')
  assert.equal(
    await refusalOf(await bench.call('POST', '/files/move', { json: { from: '/a', to: '/b\0' } })),
    '422 validation_failed/invalid_path',
  )
  assert.equal(await refusalOf(await bench.call('POST', '/files/move', { json: { from: '/a', to: '/b', force: true } })), '400 bad_request')
  await put('/gone', 'x')
  assert.equal(((await (await get('/files/stat?path=/gone')).json()) as { size: number }).size, 1)
  assert.equal(((await (await get('/files/list?path=/')).json()) as { truncated: boolean }).truncated, false)
  const removed = await bench.call('DELETE', at('/gone'))
  assert.deepEqual([removed.status, await removed.text()], [204, ''])
  assert.equal(await refusalOf(await bench.call('DELETE', at('/gone'))), '404 not_found/path_not_found')
})

test('7 MiB is written, and one byte more is 413 with max_bytes that reaches the sender, with or without a content length', async () => {
  const bytes = Buffer.alloc(7 << 20, 'x')
  assert.equal((await put('/big', bytes)).status, 200)
  const stream = (body: Buffer) => new Blob([new Uint8Array(body)]).stream()
  assert.equal((await put('/big', stream(bytes))).status, 200)
  for (const body of [
    Buffer.alloc((7 << 20) + 1),
    Buffer.alloc(40 << 20),
    stream(Buffer.alloc((7 << 20) + 1)),
    stream(Buffer.alloc(40 << 20)),
  ]) {
    const response = await put('/big2', body)
    const { error } = (await response.json()) as { error: { details: object } }
    assert.deepEqual([response.status, error.details], [413, { max_bytes: 7 << 20 }])
  }
  assert.equal(bench.agent.files.has('/big2'), false)
})

test('a sender that breaks off in the middle writes nothing', async () => {
  await put('/kept', 'old')
  const { hostname, port } = new URL(bench.gateway.address)
  for (const head of [`content-length: ${7 << 20}\r\n\r\n`, 'transfer-encoding: chunked\r\n\r\n300000\r\n']) {
    const arrived = bench.agent.seen.length
    const socket = connect(Number(port), hostname)
    socket.on('error', () => undefined)
    socket.write(
      `PUT /v1/workspaces/${bench.workspace_id}${at('/kept')} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${await bench.token()}\r\n${head}`,
    )
    socket.write(Buffer.alloc(3 << 20))
    while (bench.agent.seen.length === arrived) await new Promise((resolve) => setTimeout(resolve, 2))
    socket.resetAndDestroy()
    while (bench.table.held.length > 0) await new Promise((resolve) => setTimeout(resolve, 2))
  }
  assert.equal(bench.agent.files.get('/kept')?.toString(), 'old')
})

test("a write's key reaches the agent, which remembers it, and the agent's refusals are passed on", async () => {
  await put('/i', 'x', { 'idempotency-key': 'key-1' })
  assert.equal(bench.agent.seen.at(-1)?.headers['idempotency-key'], 'key-1')
  await put('/i', 'x')
  assert.equal(bench.agent.seen.at(-1)?.headers['idempotency-key'], undefined)
  for (const reason of ['operation_id_reused', 'operation_interrupted']) {
    bench.agent.script = (request, response) => {
      request.resume().on('end', () => response.writeHead(409).end(JSON.stringify({ code: 'conflict', reason, message: 'x' })))
    }
    assert.equal(await refusalOf(await put('/i', 'x', { 'idempotency-key': 'key-1' })), `409 conflict/${reason}`)
  }
})

test('a move between file systems is refused with its reason', async () => {
  const refusal = { code: 'conflict', reason: 'different_filesystem', message: 'The paths lie on different file systems' }
  bench.agent.script = (request, response) => {
    request.resume().on('end', () => response.writeHead(409).end(JSON.stringify(refusal)))
  }
  const response = await bench.call('POST', '/files/move', { json: { from: '/a', to: '/tmp/a' } })
  assert.equal(await refusalOf(response), '409 conflict/different_filesystem')
})

test('a key with other characters or with 101 characters is 422', async () => {
  for (const key of ['a b', 'a/b', 'a'.repeat(101), ''])
    assert.equal(await refusalOf(await put('/l', 'x', { 'idempotency-key': key })), '422 validation_failed', key)
  assert.equal((await put('/l', 'x', { 'idempotency-key': 'a'.repeat(100) })).status, 200)
})

test('a write whose answer is cut off is 409 operation_interrupted: a repeat with its key tells the outcome', async () => {
  bench.agent.script = (request) => {
    request.resume().on('end', () => request.socket.destroy())
  }
  assert.equal(await refusalOf(await put('/unknown', 'x', { 'idempotency-key': 'unknown' })), '409 conflict/operation_interrupted')
})

const LIES: [string, Record<string, string | string[]>, string][] = [
  ['no size', { 'content-length': '1' }, 'x'],
  ['a negative size', { 'content-length': '1', 'x-file-size': '-1' }, 'x'],
  ['a size that is no number', { 'content-length': '1', 'x-file-size': '1e3' }, 'x'],
  ['another length than the size says', { 'content-length': '1', 'x-file-size': '5' }, 'x'],
  ['no length', { 'x-file-size': '1' }, 'x'],
]
for (const [what, headers, body] of LIES) {
  test(`an agent that reads with ${what} is 500 internal_error`, async () => {
    bench.agent.script = (_request, response) => void response.writeHead(200, headers).end(body)
    assert.equal(await refusalOf(await get(at('/x'))), '500 internal_error')
  })
}

test("the agent's own headers do not reach the client", async () => {
  bench.agent.script = (_request, response) => {
    const headers = {
      'content-length': '1',
      'x-file-size': '1',
      'x-file-revision': 'z',
      'set-cookie': 'a=b',
      'content-type': 'text/html',
      location: 'http://evil',
    }
    response.writeHead(200, headers).end('x')
  }
  const response = await get(at('/x'))
  assert.equal(response.headers.get('content-type'), 'application/octet-stream')
  for (const name of ['set-cookie', 'location', 'x-file-revision']) assert.equal(response.headers.get(name), null)
})

test('an agent that breaks off in the middle of a file breaks off the answer, so that no part looks complete', async () => {
  bench.agent.script = (_request, response) => {
    response.writeHead(200, { 'content-length': '1000', 'x-file-size': '1000' })
    response.write('x', () => response.destroy())
  }
  await assert.rejects(async () => (await get(at('/x'))).arrayBuffer())
})

test('an agent that acknowledges other bytes than it was sent is 500', async () => {
  const ack = { path: '/x', bytes_written: 2, sha256: sha256('x'), durable: true, revision: '' }
  bench.agent.script = (request, response) => {
    request.resume().on('end', () => response.writeHead(200).end(JSON.stringify(ack)))
  }
  assert.equal(await refusalOf(await put('/x', 'x')), '500 internal_error')
})

test("an agent's answer is passed on even if it comes before the whole body was read", async () => {
  bench.agent.script = (_request, response) =>
    void response.writeHead(409).end('{"code":"conflict","reason":"not_a_directory","message":"x"}')
  assert.equal(await refusalOf(await put('/x', Buffer.alloc(6 << 20))), '409 conflict/not_a_directory')
})

test('a stalled reader of a file stops its transfer', async () => {
  bench.agent.files.set('/huge', Buffer.alloc(64 << 20))
  const { hostname, port } = new URL(bench.gateway.address)
  const before = process.memoryUsage().arrayBuffers
  const socket = connect(Number(port), hostname)
  socket.write(
    `GET /v1/workspaces/${bench.workspace_id}${at('/huge')} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${await bench.token()}\r\n\r\n`,
  )
  await once(socket, 'readable')
  await new Promise((resolve) => setTimeout(resolve, 300))
  assert.ok(process.memoryUsage().arrayBuffers - before < 48 << 20)
  socket.destroy()
})

test('keepalive stores the later end and returns it, 0 ends it, and wake-hint returns resident', async () => {
  const keep = async (seconds: unknown) => bench.call('POST', '/keepalive', { json: { seconds } })
  const until = async (response: Response) => Date.parse(((await response.json()) as { keepalive_until: string }).keepalive_until)
  const long = await until(await keep(43_200))
  assert.ok(Math.abs(long - Date.now() - 43_200_000) < 60_000)
  assert.equal(await until(await keep(60)), long)
  assert.ok((await until(await keep(0))) <= Date.now())
  for (const seconds of [-1, 43_201, 1.5, '60', null]) assert.equal(await refusalOf(await keep(seconds)), '422 validation_failed')
  assert.equal(await refusalOf(await bench.call('POST', '/keepalive', { json: { seconds: 1, more: 1 } })), '400 bad_request')
  const hint = await bench.call('POST', '/wake-hint')
  assert.deepEqual([hint.status, await hint.json()], [202, { residency: 'resident' }])
})

test('a file without a size, such as in /proc, is read to its end', async () => {
  bench.agent.script = (_request, response) => {
    response.writeHead(200, { 'x-file-size': '0' })
    response.write('Linux ')
    response.end('version')
  }
  const response = await get(at('/proc/version'))
  assert.deepEqual([response.status, await response.text(), response.headers.get('x-file-size')], [200, 'Linux version', '0'])
  assert.equal(await refusalOf(await get(at('/proc/version'), { range: 'bytes=0-1' })), '416 range_not_satisfiable')
})

test('an endless file without a size is cut', async () => {
  bench.agent.script = (_request, response) => {
    response.writeHead(200, { 'x-file-size': '0' })
    const more = () => {
      while (!response.destroyed && response.write(Buffer.alloc(1 << 20)));
    }
    response.on('drain', more)
    more()
  }
  await assert.rejects(async () => (await get(at('/proc/zeros'))).arrayBuffer())
})
