import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { bytesOf, eventsOf } from './support/events.ts'
import { FakeSession } from './support/fake-agent.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
before(async () => {
  bench = await openBench()
  bench.agent.follows = true
})
after(() => bench[Symbol.asyncDispose]())

const start = (json: unknown) => bench.call('POST', '/exec', { json })
const record = async (response: Response) => (await response.json()) as Record<string, unknown>

test('a command is started once: the same session id answers 200 with the same record', async () => {
  const first = await start({ session_id: 'once', argv: ['/bin/true'] })
  assert.equal(first.status, 201)
  const second = await start({ session_id: 'once', argv: ['/bin/true'] })
  assert.equal(second.status, 200)
  assert.deepEqual(await record(second), await record(first))
})

test('a session id with another request is 409 operation_id_reused', async () => {
  await start({ session_id: 'reused', argv: ['/bin/true'] })
  assert.equal(await refusalOf(await start({ session_id: 'reused', argv: ['/bin/false'] })), '409 conflict/operation_id_reused')
})

test('another order of the environment, or explicit defaults, is the same request', async () => {
  assert.equal((await start({ session_id: 'same', argv: ['a'], env: { A: '1', B: '2' } })).status, 201)
  assert.equal((await start({ session_id: 'same', argv: ['a'], env: { B: '2', A: '1' }, cwd: '/home/user', user: 'user' })).status, 200)
})

test('without a session id one is generated, and the agent gets the merged environment with its defaults', async () => {
  const { session_id } = (await record(await start({ argv: ['env'], env: { TOP: 'request', FROM: 'request' }, stdin: 'héllo' }))) as {
    session_id: string
  }
  assert.match(session_id, /^[0-9a-f]{8}-[0-9a-f]{4}-7/)
  const request = bench.agent.sessions.get(session_id)?.request
  assert.deepEqual(request?.['env'], { FROM: 'request', LOWEST: 'template', MIDDLE: 'input', TOP: 'request' })
  assert.deepEqual(
    {
      cwd: request['cwd'],
      user: request['user'],
      stdin: request['stdin_base64'],
      timeout: request['timeout_ms'],
      grace: request['kill_grace_ms'],
    },
    { cwd: '/home/user', user: 'user', stdin: Buffer.from('héllo').toString('base64'), timeout: 0, grace: 5000 },
  )
})

test('a grace of 0 stays 0, and does not become the default', async () => {
  await start({ session_id: 'no-grace', argv: ['a'], kill_grace_ms: 0 })
  assert.equal(bench.agent.sessions.get('no-grace')?.request['kill_grace_ms'], 1)
})

test("a template's start command can be read under its reserved id", async () => {
  bench.agent.sessions.set('sfstart.1', new FakeSession({ session_id: 'sfstart.1', argv: ['serve'], cwd: '/', user: 'user' }))
  bench.agent.sessions.get('sfstart.1')?.write('stdout', 'ready')
  bench.agent.sessions.get('sfstart.1')?.exit()
  assert.equal((await record(await bench.call('GET', '/exec/sfstart.1')))['state'], 'exited')
  const events = eventsOf(await (await bench.call('GET', '/exec/sfstart.1/output')).text())
  assert.deepEqual([bytesOf(events, 'stdout').toString(), events.at(-1)?.type], ['ready', 'exit'])
})

const REFUSED: [string, unknown, string][] = [
  ['an unknown field', { argv: ['a'], shell: true }, '400 bad_request'],
  ['__proto__', JSON.parse('{"argv":["a"],"__proto__":{"x":1}}'), '400 bad_request'],
  ['no argv', {}, '422 validation_failed'],
  ['an empty argv', { argv: [] }, '422 validation_failed'],
  ['an empty program', { argv: [''] }, '422 validation_failed'],
  ['argv as text', { argv: 'ls' }, '422 validation_failed'],
  ['NUL in an argument', { argv: ['a', 'b\0c'] }, '422 validation_failed'],
  ['half a surrogate pair', { argv: ['a', '\ud800'] }, '422 validation_failed'],
  ['a relative cwd', { argv: ['a'], cwd: 'tmp' }, '422 validation_failed/invalid_cwd'],
  ['NUL in cwd', { argv: ['a'], cwd: '/a\0' }, '422 validation_failed/invalid_cwd'],
  ['an env name with =', { argv: ['a'], env: { 'A=B': '1' } }, '422 validation_failed'],
  ['an empty env name', { argv: ['a'], env: { '': '1' } }, '422 validation_failed'],
  ['NUL in an env value', { argv: ['a'], env: { A: '\0' } }, '422 validation_failed'],
  ['an env value that is no text', { argv: ['a'], env: { 'A\nB': 5 } }, '422 validation_failed'],
  ['a reserved session id', { argv: ['a'], session_id: 'sfstart.1' }, '422 validation_failed/reserved_prefix'],
  ['a session id with a slash', { argv: ['a'], session_id: 'a/b' }, '422 validation_failed'],
  ['a session id of 129 characters', { argv: ['a'], session_id: 'a'.repeat(129) }, '422 validation_failed'],
  ['secret_refs', { argv: ['a'], secret_refs: ['S'] }, '403 forbidden/secret_not_available'],
  ['execution_id', { argv: ['a'], execution_id: 'abcdefgh' }, '422 validation_failed/not_supported_for_mode'],
  ['output_limit_bytes', { argv: ['a'], output_limit_bytes: 10 }, '422 validation_failed/not_supported_for_mode'],
  ['a timeout of 0', { argv: ['a'], timeout_ms: 0 }, '422 validation_failed'],
  ['stdin_open that is no boolean', { argv: ['a'], stdin_open: 'yes' }, '422 validation_failed'],
  ['stdin that is not base64', { argv: ['a'], stdin: 'a', stdin_encoding: 'base64' }, '422 validation_failed'],
  ['stdin above 1 MiB', { argv: ['a'], stdin: 'x'.repeat((1 << 20) + 1) }, '413 payload_too_large'],
  ['arguments above the bound', { argv: ['a', 'x'.repeat(128 << 10)] }, '413 payload_too_large'],
]
for (const [what, json, refusal] of REFUSED) {
  test(`exec with ${what} is ${refusal} and starts nothing`, async () => {
    const before = bench.agent.seen.length
    assert.equal(await refusalOf(await start(json)), refusal)
    assert.equal(bench.agent.seen.length, before)
  })
}

test('only file-first workspaces have executions: otherwise 409 not_supported_for_mode, without a call to the machine', async () => {
  const before = bench.agent.seen.length
  for (const id of ['abcdefgh', 'a.b_c:d-1', 'z'.repeat(128), 'short']) {
    const response = await bench.call('GET', `/executions/${id}`)
    const { error } = (await response.json()) as { error: { code: string; retryable: boolean; details: unknown } }
    assert.deepEqual([response.status, error.code, error.retryable], [409, 'conflict', false])
    assert.deepEqual(error.details, { reason: 'not_supported_for_mode', mode: 'processful', operation: 'executions' })
  }
  for (const id of ['abcdefg', 'z'.repeat(129), '.abcdefgh', 'abcdefg%20', 'abcdefg%0A']) {
    // The refusal of the workspace's mode comes before that of a bad request.
    assert.equal(await refusalOf(await bench.call('GET', `/executions/${id}`)), '409 conflict/not_supported_for_mode', id)
  }
  const token = await bench.token({ tools: ['files'] })
  assert.equal(await refusalOf(await bench.call('GET', '/executions/abcdefgh', { token })), '403 forbidden')
  assert.equal(bench.agent.seen.length, before)
})

test('stdin of exactly 1 MiB is accepted, as text and as base64', async () => {
  const bytes = Buffer.alloc(1 << 20, 'x')
  assert.equal((await start({ argv: ['a'], stdin: bytes.toString() })).status, 201)
  assert.equal((await start({ argv: ['a'], stdin: bytes.toString('base64'), stdin_encoding: 'base64' })).status, 201)
})

test('too large stdin or a too large body is 413 with max_bytes of that part', async () => {
  for (const [stdin, max_bytes] of [
    ['x'.repeat((1 << 20) + 1), 1 << 20],
    ['\u0001'.repeat((1 << 20) + 1), 1 << 20],
    ['x'.repeat(5 << 20), 1 << 20],
    ['x'.repeat(8 << 20), 8 << 20],
  ] as const) {
    const response = await start({ argv: ['a'], stdin })
    const { error } = (await response.json()) as { error: { details: object } }
    assert.deepEqual([response.status, error.details], [413, { max_bytes }])
  }
})

test('malformed JSON is 400, after the token is checked', async () => {
  const headers = { 'content-type': 'application/json' }
  assert.equal(await refusalOf(await bench.call('POST', '/exec', { headers, body: '{' })), '400 bad_request')
  assert.equal(await refusalOf(await bench.call('POST', '/exec', { headers, body: '{', token: 'none' })), '401 unauthenticated')
})

test('status, signal and cancel reach the session, and an unknown session is 404', async () => {
  await start({ session_id: 'life', argv: ['sleep', '9'] })
  assert.equal((await record(await bench.call('GET', '/exec/life')))['state'], 'running')
  assert.equal((await bench.call('POST', '/exec/life/signal', { json: { signal: 'SIGUSR1' } })).status, 200)
  assert.deepEqual(bench.agent.sessions.get('life')?.record['signaled'], { signal: 'SIGUSR1' })
  assert.equal((await bench.call('POST', '/exec/life/signal', { json: { signal: 'HUP' } })).status, 200)
  assert.deepEqual(bench.agent.sessions.get('life')?.record['signaled'], { signal: 'SIGHUP' })
  assert.equal((await record(await bench.call('POST', '/exec/life/cancel')))['state'], 'exited')
  assert.equal(await refusalOf(await bench.call('GET', '/exec/nobody')), '404 not_found/session_not_found')
  assert.equal(await refusalOf(await bench.call('POST', '/exec/life/signal', { json: { signal: 'sigterm' } })), '422 validation_failed')
  assert.equal(await refusalOf(await bench.call('GET', `/exec/${'a'.repeat(129)}`)), '400 bad_request')
})

test('fields that an agent adds to a record do not reach the client', async () => {
  await start({ session_id: 'extra', argv: ['a'] })
  assert.equal('signaled' in (await record(await bench.call('GET', '/exec/extra'))), false)
})

test('a command that failed for a known limit names it in its record and its exit', async () => {
  await start({ session_id: 'limited', argv: ['a'] })
  const session = bench.agent.sessions.get('limited') as FakeSession
  Object.assign(session.record, { reason: 'out_of_memory', term_signal: 'SIGKILL' })
  session.exit(-1)
  assert.equal((await record(await bench.call('GET', '/exec/limited')))['reason'], 'out_of_memory')
  const [exit] = eventsOf(await (await bench.call('GET', '/exec/limited/output')).text())
  assert.deepEqual([exit?.type, (exit as { reason?: string } | undefined)?.reason], ['exit', 'out_of_memory'])
  Object.assign(session.record, { reason: 'tired' })
  assert.equal(await refusalOf(await bench.call('GET', '/exec/limited')), '500 internal_error')
})
