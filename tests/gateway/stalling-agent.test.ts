import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { after, afterEach, before, test } from 'node:test'
import { createBufferBudgets } from '../../service/cell/host/buffer-budget.ts'
import { until } from '../support/processes.ts'
import type { Script } from './support/fake-agent.ts'
import { type Bench, openBench, refusalOf, SOON } from './support/gateway.ts'
import { patience } from '../support/patience.ts'

// A hostile agent may begin an answer and never end it. No answer outlasts its deadline or its caller.

let bench: Bench
/** Gateway whose deadlines lie far beyond the end of every test. */
let patient: Bench
before(async () => {
  bench = await openBench({ agent_deadlines: SOON })
  patient = await openBench()
})
afterEach(() => {
  bench.agent.script = null
})
after(async () => {
  await bench[Symbol.asyncDispose]()
  await patient[Symbol.asyncDispose]()
})

/** Far above the deadlines, and bounded. */
const SOON_ENOUGH = { timeout: patience(6000) }

type Asked = [method: string, path: string, init?: Parameters<Bench['call']>[2]]

const READS: Asked[] = [
  ['GET', '/exec/s'],
  ['GET', '/files/stat?path=/f'],
  ['GET', '/files/list?path=/d'],
  ['POST', '/files/search', { json: { path: '/d', pattern: 'x' } }],
  ['GET', '/changes'],
]
const CHANGES: Asked[] = [
  ['POST', '/exec', { json: { session_id: 's', argv: ['a'] } }],
  ['POST', '/exec/s/signal', { json: { signal: 'SIGTERM' } }],
  ['POST', '/exec/s/cancel'],
  ['PUT', '/files?path=/f', { body: 'x' }],
  ['DELETE', '/files?path=/f'],
  ['POST', '/files/mkdir', { json: { path: '/d' } }],
  ['POST', '/files/move', { json: { from: '/a', to: '/b' } }],
  ['POST', '/files/patch', { json: { path: '/f', content: 'x' } }],
]
const CALLS = [...READS, ...CHANGES]

function begins(status: number, begun: (response: ServerResponse) => void): Script {
  return (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.write('{')
    begun(response)
  }
}

for (const [method, path, init] of CALLS) {
  test(`an answer to ${method} ${path} that stalls after its head is given up in time`, SOON_ENOUGH, async () => {
    const { promise, resolve } = Promise.withResolvers<ServerResponse>()
    bench.agent.script = begins(200, resolve)
    const refused = bench.call(method, path, init)
    const ended = once(await promise, 'close')
    assert.equal(await refusalOf(await refused), '504 timeout')
    await ended
  })

  test(`a caller of ${method} ${path} who leaves takes the agent's answer along`, SOON_ENOUGH, async () => {
    const { promise, resolve } = Promise.withResolvers<ServerResponse>()
    patient.agent.script = begins(200, resolve)
    const leaving = new AbortController()
    const left = assert.rejects(patient.call(method, path, { ...init, signal: leaving.signal }))
    const response = await promise
    const ended = once(response, 'close')
    leaving.abort()
    await Promise.all([left, ended])
  })
}

test('an answer that trickles is given up at the same time as one that stalls', SOON_ENOUGH, async () => {
  let trickle: NodeJS.Timeout | undefined
  bench.agent.script = begins(200, (response) => {
    trickle = setInterval(() => response.write(' '), SOON.answer_ms / 10)
    response.once('close', () => clearInterval(trickle))
  })
  assert.equal(await refusalOf(await bench.call('GET', '/files/list?path=/d')), '504 timeout')
})

test('an agent that stops reading a request is given up in time', SOON_ENOUGH, async () => {
  bench.agent.script = (request) => void request.pause()
  const content = 'x'.repeat(6 << 20)
  assert.equal(await refusalOf(await bench.call('POST', '/files/patch', { json: { path: '/f', content } })), '504 timeout')
})

const REFUSALS: [string, number, Asked][] = [
  ['a refusal of the link', 503, ['GET', '/files/stat?path=/f']],
  ['a key that is unknown', 401, ['GET', '/files/stat?path=/f']],
  ['an answer without a body', 200, ['DELETE', '/files?path=/f']],
]
for (const [what, status, [method, path]] of REFUSALS) {
  test(`${what} that never ends is not listened to`, SOON_ENOUGH, async () => {
    const { promise, resolve } = Promise.withResolvers<ServerResponse>()
    bench.agent.script = (_request, response) => {
      response.writeHead(status)
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(64 << 10, 32)));
      }
      response.on('drain', more)
      more()
      resolve(response)
    }
    const answered = bench.call(method, path)
    const ended = once(await promise, 'close')
    const { status: told } = await answered
    assert.ok(told === 503 || told === 500, String(told))
    await ended
  })
}

for (const size of [100, 1 << 20]) {
  test(`a file of ${size} bytes that stalls half-way is broken off`, SOON_ENOUGH, async () => {
    const { promise, resolve } = Promise.withResolvers<ServerResponse>()
    bench.agent.script = (_request, response) => {
      response.writeHead(200, { 'content-length': size, 'x-file-size': size })
      response.write(Buffer.alloc(size / 2))
      resolve(response)
    }
    const answer = await bench.call('GET', '/files?path=/f')
    assert.equal(answer.status, 200)
    const ended = once(await promise, 'close')
    await assert.rejects(answer.arrayBuffer())
    await ended
  })
}

function holds(bytes: number, held: (response: ServerResponse) => void): Script {
  return (_request, response) => {
    response.writeHead(200)
    response.write(Buffer.alloc(bytes, ' '))
    held(response)
  }
}

test("agents' buffered answers are bounded: beyond it a read is 503 and a change has an unknown outcome", SOON_ENOUGH, async () => {
  const rooms = createBufferBudgets(1 << 20)
  await using small = await openBench({ rooms })
  small.agent.script = holds(500 << 10, () => undefined)
  const refused = await small.call('GET', '/files/list?path=/d')
  assert.equal(refused.headers.get('retry-after'), '1')
  assert.equal(await refusalOf(refused), '503 service_unavailable')
  assert.equal(await refusalOf(await small.call('POST', '/exec', { json: { argv: ['a'] } })), '409 conflict/operation_interrupted')
  await until('all of it is free again', 5000, () => rooms.taken_bytes() === 0)
})

test('a call beyond the buffer budget does not reach its machine', SOON_ENOUGH, async () => {
  await using small = await openBench({ rooms: createBufferBudgets(4 << 20) })
  const large = { json: { path: '/f', content: 'x'.repeat(3 << 20) } }
  assert.equal(await refusalOf(await small.call('POST', '/files/patch', large)), '503 service_unavailable')
  assert.deepEqual(small.agent.seen, [])
  assert.equal((await small.call('PUT', '/files?path=/f', { body: 'x'.repeat(3 << 20) })).status, 200, 'what is not held has no bound')
})

test('an answer counts against the budget until its reader has taken it', SOON_ENOUGH, async () => {
  const rooms = createBufferBudgets()
  await using own = await openBench({ rooms })
  const name = 'n'.repeat(1000)
  const entry = { path: `/${name}`, name, type: 'file', size: 1, mode: '0644', modified_at: '2026-01-01T00:00:00.000Z' }
  const list = JSON.stringify({ entries: Array.from({ length: 7000 }, () => entry), truncated: false })
  own.agent.script = (_request, response) => void response.end(list)
  const { hostname, port } = new URL(own.gateway.address)
  const reader = connect({ host: hostname, port: Number(port), onread: { buffer: Buffer.alloc(1 << 10), callback: () => false } })
  reader.write(
    `GET /v1/workspaces/${own.workspace_id}/files/list?path=/d HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${await own.token()}\r\n\r\n`,
  )
  await until('its first bytes have come', 5000, () => reader.bytesRead > 0)
  assert.ok(rooms.taken_bytes() >= list.length, String(rooms.taken_bytes()))
  reader.destroy()
  await until('it is let go', 5000, () => rooms.taken_bytes() === 0)
})
