import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, afterEach, before, test } from 'node:test'
import { createCallPermits } from '../../service/cell/admission/call-permits.ts'
import { bytesOf, eventsOf, following, next } from './support/events.ts'
import { type FakeSession, frame, KIND } from './support/fake-agent.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
before(async () => {
  bench = await openBench()
  bench.agent.follows = true
})
afterEach(() => {
  bench.agent.script = null
})
after(() => bench[Symbol.asyncDispose]())

let count = 0
async function begun(): Promise<{ id: string; session: FakeSession }> {
  const id = `out-${(count += 1)}`
  await bench.call('POST', '/exec', { json: { session_id: id, argv: ['a'] } })
  return { id, session: bench.agent.sessions.get(id) as FakeSession }
}
const output = (id: string, query = '', init: Parameters<Bench['call']>[2] = {}) => bench.call('GET', `/exec/${id}/output${query}`, init)
const read = async (id: string, query = '') => eventsOf(await (await output(id, query)).text())

test('NDJSON is exact, byte by byte', async () => {
  const { id, session } = await begun()
  session.write('stdout', 'one\n')
  session.write('stderr', 'e')
  session.exit(7)
  const response = await output(id)
  assert.equal(response.headers.get('content-type'), 'application/x-ndjson')
  assert.equal(
    await response.text(),
    '{"type":"output","stream":"stdout","offset":0,"data":"b25lCg=="}\n' +
      '{"type":"output","stream":"stderr","offset":0,"data":"ZQ=="}\n' +
      '{"type":"exit","state":"exited","exit_code":7,"term_signal":null,"timed_out":false,"started_at":"2026-01-01T00:00:00.000Z",' +
      '"ended_at":"2026-01-01T00:00:01.000Z","error":null,"stdout_bytes":4,"stderr_bytes":1}\n',
  )
})

test('Server-Sent Events are exact, byte by byte', async () => {
  const { id, session } = await begun()
  session.write('stdout', 'one\n')
  session.exit(0)
  const response = await output(id, '', { headers: { accept: 'text/event-stream' } })
  assert.equal(response.headers.get('content-type'), 'text/event-stream')
  const [first, second, rest] = (await response.text()).split('\n\n')
  assert.equal(first, 'data: {"type":"output","stream":"stdout","offset":0,"data":"b25lCg=="}')
  assert.match(second ?? '', /^data: \{"type":"exit",/)
  assert.equal(rest, '')
})

test('a follower gets output as it is written, and the exit last', async () => {
  const { id, session } = await begun()
  const events = following(await output(id))
  for (const word of ['a', 'bc', 'def']) {
    session.write('stdout', word)
    assert.equal(Buffer.from((await next(events)).data ?? '', 'base64').toString(), word)
  }
  session.exit()
  assert.equal((await next(events)).type, 'exit')
  assert.equal((await events.next()).done, true)
})

test('reading on from any offset gives the same bytes, without a gap or a repeat', async () => {
  const { id, session } = await begun()
  const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, at) => at % 251))
  session.write('stdout', bytes)
  session.exit()
  for (const offset of [0, 1, 65_535, 65_536, 65_537, 299_999, 300_000]) {
    const events = await read(id, `?stdout_offset=${offset}`)
    assert.ok(bytesOf(events, 'stdout').equals(bytes.subarray(offset)), String(offset))
    let expected = offset
    for (const event of events.filter((one) => one.type === 'output')) {
      assert.equal(event.offset, expected)
      expected += Buffer.from(event.data ?? '', 'base64').length
    }
  }
})

test('follow=false returns the output so far and ends without an exit', async () => {
  const { id, session } = await begun()
  session.write('stdout', 'so far')
  const events = await read(id, '?follow=false')
  assert.deepEqual(events, [{ type: 'output', stream: 'stdout', offset: 0, data: Buffer.from('so far').toString('base64') }])
})

test('an offset beyond the end is 400, and one below the kept output is an error event with available_from', async () => {
  const { id, session } = await begun()
  session.write('stdout', 'abcdef')
  assert.equal(await refusalOf(await output(id, '?stdout_offset=7')), '400 bad_request')
  session.available_from = 3
  const [event, ...rest] = await read(id, '?stdout_offset=2')
  assert.deepEqual(
    [event?.type, event?.error?.code, event?.error?.details],
    ['error', 'conflict', { reason: 'output_expired', available_from: 3 }],
  )
  assert.deepEqual(rest, [])
})

test('bad offsets and an unknown session are refused before a stream begins', async () => {
  const { id } = await begun()
  for (const query of [
    '?stdout_offset=-1',
    '?stdout_offset=x',
    '?stderr_offset=1.5',
    '?follow=maybe',
    '?stdout_offset=99999999999999999999',
  ]) {
    assert.equal(await refusalOf(await output(id, query)), '400 bad_request', query)
  }
  assert.equal(await refusalOf(await output('nobody')), '404 not_found/session_not_found')
})

test('heartbeats come every 15 s, between any other events', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const { id, session } = await begun()
  session.write('stdout', 'x')
  const events = following(await output(id))
  assert.equal((await next(events)).type, 'output')
  for (let beat = 0; beat < 3; beat += 1) {
    t.mock.timers.tick(14_999)
    session.write('stdout', 'not yet')
    assert.equal((await next(events)).type, 'output')
    t.mock.timers.tick(1)
    assert.deepEqual(await next(events), { type: 'heartbeat' })
  }
  session.exit()
  assert.equal((await next(events)).type, 'exit')
})

test('a suspend ends the stream with stale_epoch, and the next incarnation continues at the offset', async () => {
  const own = await openBench()
  try {
    await own.call('POST', '/exec', { json: { session_id: 's', argv: ['a'] } })
    const session = own.agent.sessions.get('s') as FakeSession
    session.write('stdout', 'before')
    const events = following(await own.call('GET', '/exec/s/output'))
    assert.equal((await next(events)).type, 'output')
    own.table.set(own.workspace_id, { ownership_epoch: 4, observed_state: 'suspended', machine: null })
    own.life.end('epoch_ended')
    const last = await next(events)
    assert.deepEqual([last.type, last.error?.code, last.error?.retryable], ['error', 'stale_epoch', true])
    assert.equal((await events.next()).done, true)
    const machine = { ...(own.life.entry.machine as NonNullable<typeof own.life.entry.machine>), epoch: 5 }
    own.table.set(own.workspace_id, { ownership_epoch: 5, observed_state: 'running', machine, gone: new AbortController().signal })
    session.write('stdout', ' and after')
    session.exit()
    const rest = await own.call('GET', '/exec/s/output?stdout_offset=6', { token: await own.token({ epoch: 5 }) })
    assert.equal(bytesOf(eventsOf(await rest.text()), 'stdout').toString(), ' and after')
  } finally {
    await own[Symbol.asyncDispose]()
  }
})

for (const observed_state of ['failed', 'running'] as const) {
  test(`an engine that is killed under a stream ends it with workspace_not_running, and its row says ${observed_state}`, async () => {
    const own = await openBench()
    try {
      await own.call('POST', '/exec', { json: { session_id: 's', argv: ['a'] } })
      ;(own.agent.sessions.get('s') as FakeSession).write('stdout', 'x')
      const events = following(await own.call('GET', '/exec/s/output'))
      await next(events)
      own.agent.cut()
      own.table.set(own.workspace_id, { observed_state, machine: null })
      own.life.end('died')
      assert.equal((await next(events)).error?.code, 'workspace_not_running')
    } finally {
      await own[Symbol.asyncDispose]()
    }
  })
}

test('a delete ends the stream with revoked_workspace', async () => {
  const own = await openBench()
  try {
    await own.call('POST', '/exec', { json: { session_id: 's', argv: ['a'] } })
    ;(own.agent.sessions.get('s') as FakeSession).write('stdout', 'x')
    const events = following(await own.call('GET', '/exec/s/output'))
    await next(events)
    own.table.set(own.workspace_id, { deleted_at: new Date(), desired_state: 'deleted' })
    own.life.end('deleted')
    assert.deepEqual((await next(events)).error?.details, { reason: 'revoked_workspace' })
  } finally {
    await own[Symbol.asyncDispose]()
  }
})

test('closing drains: a stream ends with an error event, and a new call is 503 draining', async () => {
  const own = await openBench()
  try {
    await own.call('POST', '/exec', { json: { session_id: 's', argv: ['a'] } })
    ;(own.agent.sessions.get('s') as FakeSession).write('stdout', 'x')
    const events = following(await own.call('GET', '/exec/s/output'))
    await next(events)
    own.gateway.drain()
    const last = await next(events)
    assert.deepEqual([last.error?.code, last.error?.details], ['service_unavailable', { reason: 'draining' }])
    assert.equal(await refusalOf(await own.call('GET', '/exec/s')), '503 service_unavailable/draining')
  } finally {
    await own[Symbol.asyncDispose]()
  }
})

test('closing does not wait for a stalled reader', async () => {
  const own = await openBench()
  await own.call('POST', '/exec', { json: { session_id: 's', argv: ['a'] } })
  ;(own.agent.sessions.get('s') as FakeSession).write('stdout', Buffer.alloc(32 << 20))
  const socket = await stall('s', own)
  await own[Symbol.asyncDispose]()
  socket.destroy()
})

test('an open stream survives the loss of the database', async () => {
  const { id, session } = await begun()
  const events = following(await output(id))
  bench.table.lost_ms = 60_000
  session.write('stdout', 'still here')
  assert.equal((await next(events)).type, 'output')
  bench.table.lost_ms = 0
  session.exit()
  assert.equal((await next(events)).type, 'exit')
})

test('a stream keeps the machine awake until its reader disconnects', async () => {
  const { id } = await begun()
  const leaving = new AbortController()
  const nobody = async () => {
    while (bench.table.held.length > 0) await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await nobody() // waits until the streams of earlier tests are released
  await output(id, '', { signal: leaving.signal })
  assert.deepEqual(bench.table.held, [`stream ${bench.workspace_id}`])
  leaving.abort()
  await nobody()
})

test('a stalled reader of endless output costs no memory, and delays no other reader', async () => {
  const { id } = await begun()
  let sent = 0
  bench.agent.script = (request, response) => {
    if (!request.url?.includes('/output')) return void response.writeHead(404).end('{"code":"not_found","message":"x"}')
    response.writeHead(200)
    const piece = Buffer.alloc(65_536, 121)
    const more = () => {
      while (!response.destroyed && response.write(frame(KIND.stdout, sent, piece))) sent += piece.length
      sent += piece.length
    }
    response.on('drain', more)
    more()
  }
  const stalled = await Promise.all(Array.from({ length: 10 }, () => stall(id)))
  let seen = -1
  while (seen !== sent) {
    seen = sent
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  assert.ok(sent < 200 << 20, `${sent} bytes were taken from the agent`)
  assert.equal((await bench.call('GET', '/exec/nobody')).status, 404)
  for (const socket of stalled) socket.destroy()
})

async function stall(id: string, on = bench) {
  const { hostname, port } = new URL(on.gateway.address)
  const socket = connect(Number(port), hostname)
  const token = await on.token()
  socket.write(`GET /v1/workspaces/${on.workspace_id}/exec/${id}/output HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n\r\n`)
  await once(socket, 'readable')
  return socket
}

test("streams beyond the total or an organization's bound are 503 too_many_streams, beyond a workspace's 429, with Retry-After: 1", async () => {
  for (const [limits, refusal] of [
    [{ calls: 9, streams: 9, organization_streams: 9, all_streams: 4 }, '503 service_unavailable/too_many_streams'],
    [{ calls: 9, streams: 9, organization_streams: 2, all_streams: 9 }, '503 service_unavailable/too_many_streams'],
    [{ calls: 9, streams: 2, organization_streams: 9, all_streams: 9 }, '429 rate_limited'],
  ] as const) {
    await using own = await openBench({ places: createCallPermits(limits) })
    await own.call('POST', '/exec', { json: { session_id: 's', argv: ['a'] } })
    const leaving = new AbortController()
    const streams = [leaving.signal, null].map((signal) => own.call('GET', '/exec/s/output', { signal }))
    assert.deepEqual(
      (await Promise.all(streams)).map((response) => response.status),
      [200, 200],
    )
    const refused = await own.call('GET', '/exec/s/output')
    assert.equal(refused.headers.get('retry-after'), '1')
    assert.equal(await refusalOf(refused), refusal)
    leaving.abort()
    const again = async (): Promise<number> => {
      const response = await own.call('GET', '/exec/s/output')
      return response.status === 200 ? 200 : again()
    }
    assert.equal(await again(), 200, 'a place that is given back is taken again')
  }
})

test('a stalled follower delays no other, and gets everything later', async () => {
  const { id, session } = await begun()
  const bytes = Buffer.from(Array.from({ length: 3_000_000 }, (_, at) => at % 253))
  const slow = await output(id)
  session.write('stdout', bytes)
  session.exit()
  for (let n = 0; n < 5; n += 1) assert.ok(bytesOf(await read(id), 'stdout').equals(bytes))
  assert.ok(bytesOf(eventsOf(await slow.text()), 'stdout').equals(bytes))
})
