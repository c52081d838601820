import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import { WebSocket } from 'ws'
import { LIMITS } from '../../contract/limits.ts'
import type { WorkspaceEntry } from '../../service/cell/machines/table.ts'
import { attach, type AttachEvent, type Attached } from '../support/attached.ts'
import { type FakeSession, frame } from './support/fake-agent.ts'
import { runningEntry } from './support/fake-table.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
let good: WorkspaceEntry
before(async () => {
  bench = await openBench()
  good = bench.life.entry
})
beforeEach(() => bench.table.entries.set(bench.workspace_id, good))
afterEach(() => {
  bench.agent.script = null
})
after(() => bench[Symbol.asyncDispose]())

let count = 0
async function begun(of = bench): Promise<{ id: string; session: FakeSession }> {
  const id = `at-${(count += 1)}`
  await of.call('POST', '/exec', { json: { session_id: id, argv: ['a'] } })
  return { id, session: of.agent.sessions.get(id) as FakeSession }
}
const urlOf = (id: string, query = '', of = bench) => `${of.gateway.address}/v1/workspaces/${of.workspace_id}/exec/${id}/attach${query}`
const open = async (id: string, query = '', of = bench) => attach(urlOf(id, query, of), { token: await of.token() })
/** The first event proves that the connection was admitted. */
async function carried(of: Bench): Promise<Attached> {
  const { id, session } = await begun(of)
  const attached = await open(id, '', of)
  session.write('stdout', 'x')
  await attached.next()
  return attached
}
async function ending(attached: Attached): Promise<string> {
  const last = (await attached.rest()).at(-1) as AttachEvent
  const { code, reason } = await attached.closed
  if (last.type !== 'error' || last.error === undefined) return `${last.type} ${code} ${reason}`
  assert.equal(reason, JSON.stringify({ code: last.error.code }))
  const told = last.error.details?.['reason']
  return `${code} ${last.error.code}${typeof told === 'string' ? `/${told}` : ''}`
}

test('an attached command sends the events of its output, and closes with 1000 after the exit', async () => {
  const { id, session } = await begun()
  const attached = await attach(urlOf(id), { token: await bench.token(), ws: { headers: { 'x-request-id': 'my-request' } } })
  assert.equal(attached.headers['x-request-id'], 'my-request')
  session.write('stdout', 'one\n')
  assert.deepEqual(await attached.next(), { type: 'output', stream: 'stdout', offset: 0, data: 'b25lCg==' })
  session.write('stderr', 'e')
  assert.deepEqual(await attached.next(), { type: 'output', stream: 'stderr', offset: 0, data: 'ZQ==' })
  session.exit(7)
  assert.deepEqual(await attached.rest(), [
    {
      type: 'exit',
      state: 'exited',
      exit_code: 7,
      term_signal: null,
      timed_out: false,
      started_at: '2026-01-01T00:00:00.000Z',
      ended_at: '2026-01-01T00:00:01.000Z',
      error: null,
      stdout_bytes: 4,
      stderr_bytes: 1,
    },
  ])
  assert.deepEqual(await attached.closed, { code: 1000, reason: '' })
})

test("the query's offsets are where each stream continues", async () => {
  const { id, session } = await begun()
  session.write('stdout', 'abcdef')
  session.write('stderr', 'xyz')
  session.exit()
  const events = await (await open(id, '?stdout_offset=4&stderr_offset=3')).rest()
  assert.deepEqual(
    events.map(({ type, stream, offset, data }) => [type, stream, offset, data]),
    [
      ['output', 'stdout', 4, 'ZWY='],
      ['exit', undefined, undefined, undefined],
    ],
  )
})

test('a bad request is reported on the open socket, which closes with 4000 and its status', async () => {
  const { id } = await begun()
  const refused = async (path: string, query = '') => ending(await open(path, query))
  assert.equal(await refused('no-such-session'), '4404 not_found/session_not_found')
  assert.equal(await refused(id, '?stdout_offset=1'), '4400 bad_request')
  assert.equal(await refused(id, '?stdout_offset=-1'), '4400 bad_request')
  assert.equal(await refused('a%20b'), '4400 bad_request')
})

test('the error message is the whole envelope', async () => {
  const attached = await attach(urlOf('x'), { ws: { headers: { 'x-request-id': 'my-request' } } })
  assert.deepEqual(await attached.rest(), [
    {
      type: 'error',
      error: {
        code: 'unauthenticated',
        message: 'The call needs a tool token: Authorization: Bearer <token>',
        request_id: 'my-request',
        retryable: false,
      },
    },
  ])
  assert.deepEqual(await attached.closed, { code: 4401, reason: '{"code":"unauthenticated"}' })
})

test('a token is accepted in the header or as a sub-protocol, and only berth.v1 is echoed', async () => {
  const { id, session } = await begun()
  session.exit()
  const token = await bench.token()
  const attached = await attach(urlOf(id), { protocols: ['berth.v1', `bearer.${token}`] })
  assert.deepEqual(
    [attached.socket.protocol, attached.headers['sec-websocket-protocol'], (await attached.closed).code],
    ['berth.v1', 'berth.v1', 1000],
  )
  assert.doesNotMatch(JSON.stringify(attached.headers), new RegExp(token))
})

test('a token in the query or in a cookie is not accepted, and no token is logged', async () => {
  const { id } = await begun()
  const token = await bench.token()
  for (const name of ['token', 'access_token', 'authorization']) {
    assert.equal(await ending(await attach(urlOf(id, `?${name}=${token}`))), '4401 unauthenticated')
    const cookie = `${name}=${token}`
    assert.equal(await ending(await attach(urlOf(id), { ws: { headers: { cookie } } })), '4401 unauthenticated')
  }
  await ending(await attach(urlOf(id), { protocols: ['berth.v1', `bearer.${token.slice(0, -4)}AAAA`] }))
  const signature = token.split('.')[2] ?? ''
  assert.deepEqual(
    bench.logged.filter((line) => line.includes(signature.slice(0, 20))),
    [],
  )
})

test('a token of another workspace is 4403, for any session', async () => {
  const other = '018f0000-0000-7000-8000-0000000000ff'
  bench.table.entries.set(other, { ...runningEntry(other, bench.cell_id, bench.agent.address).entry })
  const { id } = await begun()
  const foreign = await bench.token({ ws: other })
  assert.equal(await ending(await attach(urlOf(id), { token: foreign })), '4403 forbidden')
})

test('a token without the tool is 4403 and names the tool', async () => {
  const attached = await attach(urlOf('x'), { token: await bench.token({ tools: ['pty', 'files'] }) })
  const [event] = await attached.rest()
  assert.deepEqual([event?.error?.code, event?.error?.details, (await attached.closed).code], ['forbidden', { tool: 'exec' }, 4403])
})

test('a state that serves no calls is 4409 with its code', async () => {
  const { id } = await begun()
  const operation_id = '018f0000-0000-7000-8000-000000000001'
  const set = (change: Partial<WorkspaceEntry>) => bench.table.set(bench.workspace_id, change)
  set({ observed_state: 'suspended', machine: null })
  assert.equal(await ending(await open(id)), '4409 workspace_not_running')
  // The connection may carry input, so an operation that allows only reads must refuse it too.
  for (const gate of ['closed', 'read_only'] as const) {
    set({ hold: { operation_id, operation_kind: 'snapshot', gate } })
    assert.equal(await ending(await open(id)), '4409 workspace_busy')
  }
  set({ ownership_epoch: 4 })
  assert.equal(await ending(await open(id)), '4409 stale_epoch')
})

test('signals and cancel reach the command', async () => {
  const { id, session } = await begun()
  const attached = await open(id)
  attached.say({ type: 'signal', signal: 'USR1' })
  attached.say({ type: 'cancel' })
  assert.equal((await attached.rest()).at(-1)?.type, 'exit')
  assert.deepEqual(session.record['signaled'], { signal: 'SIGUSR1' })
  assert.deepEqual(
    bench.agent.seen.filter(({ url }) => url.startsWith(`/exec/${id}/`)).map(({ url }) => url.split('/')[3]?.split('?')[0]),
    ['output', 'signal', 'cancel'],
  )
})

const WRONG: [string, unknown, string][] = [
  ['no JSON', '{', '4400 bad_request'],
  ['no object', 'null', '4400 bad_request'],
  ['binary', Buffer.from('{"type":"cancel"}'), '4400 bad_request'],
  ['of an unknown type', { type: 'toString' }, '4400 bad_request'],
  ['for terminals', { type: 'resize', cols: 1, rows: 1 }, '4400 bad_request'],
  ['with an unknown field', { type: 'cancel', now: true }, '4400 bad_request'],
  ['with a bad value', { type: 'signal', signal: 'SIGNONE' }, '4422 validation_failed'],
  ['without its value', { type: 'signal' }, '4422 validation_failed'],
  ['too large', JSON.stringify({ type: 'cancel', pad: 'x'.repeat(128 << 10) }), '4413 payload_too_large'],
]
for (const [what, message, refusal] of WRONG) {
  test(`a message ${what} is ${refusal}, and what comes behind it is not obeyed`, async () => {
    const { id, session } = await begun()
    const attached = await open(id)
    attached.say(message)
    attached.say({ type: 'cancel' })
    assert.equal(await ending(attached), refusal)
    assert.equal(session.record['state'], 'running')
  })
}

test('a message that is too large for every route closes with 1009', async () => {
  const { id } = await begun()
  const attached = await open(id)
  attached.say('x'.repeat((1 << 20) + 1))
  assert.equal((await attached.closed).code, 1009)
})

test('deleting a workspace closes its streams with 4410', async () => {
  await using own = await openBench()
  const attached = await carried(own)
  own.table.set(own.workspace_id, { deleted_at: new Date() })
  own.life.end('deleted')
  assert.equal(await ending(attached), '4410 not_found')
})

test('the death of a machine closes its streams with 4409 workspace_not_running, a suspend with stale_epoch', async () => {
  for (const [reason, change, refusal] of [
    ['died', { observed_state: 'failed', machine: null }, '4409 workspace_not_running'],
    ['epoch_ended', { observed_state: 'suspended', ownership_epoch: 4, machine: null }, '4409 stale_epoch'],
  ] as const) {
    await using own = await openBench()
    const attached = await carried(own)
    own.table.set(own.workspace_id, change)
    own.life.end(reason)
    assert.equal(await ending(attached), refusal)
  }
})

test('a connection that breaks while the machine lives is 4503', async () => {
  await using own = await openBench()
  const attached = await carried(own)
  own.agent.cut()
  assert.equal(await ending(attached), '4503 dependency_unavailable')
})

test('an agent that sends nonsense ends its own stream with 4500, and earlier output is delivered', async () => {
  const { id } = await begun()
  bench.agent.script = (_request, response) => {
    response.writeHead(200)
    response.write(Buffer.concat([frame(1, 0, 'true'), frame(9, 0, 'false')]))
  }
  const attached = await open(id)
  assert.equal((await attached.next())?.data, Buffer.from('true').toString('base64'))
  assert.equal(await ending(attached), '4500 internal_error')
})

test('a gateway that shuts down closes streams with 1001 and no error, and refuses new ones with 4503', async () => {
  await using own = await openBench()
  const attached = await carried(own)
  own.gateway.drain()
  assert.deepEqual(await attached.rest(), [])
  assert.deepEqual(await attached.closed, { code: 1001, reason: '' })
  assert.equal(await ending(await open('x', '', own)), '4503 service_unavailable/draining')
})

test('a gateway closes even if a client neither reads nor closes', async () => {
  const own = await openBench()
  const { id, session } = await begun(own)
  const attached = await open(id, '', own)
  attached.socket.pause()
  session.write('stdout', Buffer.alloc(16 << 20))
  await own[Symbol.asyncDispose]()
})

test('a stream keeps its workspace awake until its client disconnects', async () => {
  await using own = await openBench()
  const attached = await carried(own)
  assert.deepEqual(own.table.held, [`stream ${own.workspace_id}`])
  attached.socket.close()
  await attached.closed
  while (own.table.held.length > 0) await new Promise(setImmediate)
})

test('a client that reads nothing stops the agent from sending', async () => {
  await using own = await openBench()
  const { id, session } = await begun(own)
  const attached = await open(id, '', own)
  attached.socket.pause()
  const bytes = Buffer.alloc(32 << 20, 'x')
  session.write('stdout', bytes)
  const [socket] = [...own.agent.sockets]
    .filter((each) => each.writableLength > 0 || each.bytesWritten > 0)
    .sort((a, b) => b.bytesWritten - a.bytesWritten)
  let before = -1
  while (socket && socket.bytesWritten !== before) {
    before = socket.bytesWritten
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
  assert.ok((socket?.bytesWritten ?? 0) < 16 << 20, `${socket?.bytesWritten} bytes were taken from the agent`)
  attached.socket.resume()
  session.exit()
  const events = await attached.rest()
  assert.equal(
    events.reduce((sum, { data }) => sum + Buffer.from(data ?? '', 'base64').length, 0),
    bytes.length,
  )
})

test('a plain request is told to upgrade, and a broken handshake is 400 in the envelope', async () => {
  assert.equal(await refusalOf(await bench.call('GET', '/exec/x/attach')), '400 bad_request')
  const handshake = 'connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=='
  const broken: [string, string, string][] = [
    ['no key', urlOf('x'), 'connection: Upgrade\r\nupgrade: websocket'],
    ['no address', urlOf('%zz'), handshake],
    ['no upgrade of the connection', urlOf('x'), `upgrade: websocket\r\nconnection: close\r\nauthorization: Bearer ${await bench.token()}`],
  ]
  for (const [what, url, headers] of broken) {
    const socket = connect(Number(new URL(bench.gateway.address).port), '127.0.0.1')
    socket.write(`GET ${url.slice(bench.gateway.address.length)} HTTP/1.1\r\nhost: a\r\n${headers}\r\n\r\n`)
    let text = ''
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
    await once(socket, 'close')
    assert.match(text, /^HTTP\/1\.1 400 [^]*"code":"bad_request"/, what)
  }
})

test('an upgrade on a route that is no WebSocket is answered as a request', async () => {
  const { id } = await begun()
  const socket = new WebSocket(urlOf(id).replace(/^http/, 'ws').replace('/attach', ''), {
    headers: { authorization: `Bearer ${await bench.token()}` },
  })
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, { statusCode: number; destroy(): void }]
  assert.equal(response.statusCode, 200)
  socket.on('error', () => undefined)
  socket.terminate()
})

test('the concurrent streams of a workspace are bounded, and the next is 4429', async () => {
  await using own = await openBench()
  const { id, session } = await begun(own)
  session.write('stdout', 'x')
  const url = urlOf(id, '', own)
  const token = await own.token()
  const streams = LIMITS.stream.per_workspace_max
  for (let opened = 0; opened < streams; opened += 100) {
    await Promise.all(Array.from({ length: 100 }, async () => (await attach(url, { token })).next()))
  }
  assert.equal(own.table.held.length, streams)
  assert.equal(await ending(await attach(url, { token })), '4429 rate_limited')
})
