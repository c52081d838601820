import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, afterEach, before, test } from 'node:test'
import { WebSocket } from 'ws'
import { LIMITS } from '../../contract/limits.ts'
import { until } from '../support/processes.ts'
import { bytesOf, eventsOf } from './support/events.ts'
import { frame, KIND } from './support/fake-agent.ts'
import { type Bench, openBench } from './support/gateway.ts'
import { patience } from '../support/patience.ts'

// A stalled reader keeps its stream and unread output for a bounded time; unread output can be read again later.

const BYTES = 32 << 20
const SOON_ENOUGH = { timeout: patience(20_000) }

let bench: Bench
before(async () => {
  bench = await openBench({ reader_stalled_ms: 400 })
})
afterEach(() => {
  bench.agent.script = null
})
after(() => bench[Symbol.asyncDispose]())

const nobody = (of: Bench) => until('no place is taken', 10_000, () => of.table.held.length === 0)

async function deaf(path: string): Promise<Socket> {
  const { hostname, port } = new URL(bench.gateway.address)
  const socket = connect({ host: hostname, port: Number(port), onread: { buffer: Buffer.alloc(1 << 10), callback: () => false } })
  const head = [`GET /v1/workspaces/${bench.workspace_id}${path} HTTP/1.1`, 'host: x', `authorization: Bearer ${await bench.token()}`]
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  await until('its answer has begun', 5000, () => socket.bytesRead > 0)
  return socket
}

test('a stalled follower is ended, and its output is still there for a later reader', SOON_ENOUGH, async () => {
  await bench.call('POST', '/exec', { json: { session_id: 'f', argv: ['a'] } })
  const session = bench.agent.sessions.get('f')
  session?.write('stdout', Buffer.alloc(BYTES, 'x'))
  const socket = await deaf('/exec/f/output')
  await nobody(bench)
  socket.destroy()
  session?.exit()
  const events = eventsOf(await (await bench.call('GET', `/exec/f/output?stdout_offset=${BYTES - 10}`)).text())
  assert.equal(bytesOf(events, 'stdout').toString(), 'x'.repeat(10))
})

test('a stalled reader of a file is ended', SOON_ENOUGH, async () => {
  bench.agent.files.set('/f', Buffer.alloc(BYTES))
  const socket = await deaf('/files?path=/f')
  await nobody(bench)
  socket.destroy()
})

test('a follower without new output is not ended', SOON_ENOUGH, async () => {
  await bench.call('POST', '/exec', { json: { session_id: 'q', argv: ['a'] } })
  const socket = await deaf('/exec/q/output')
  bench.agent.files.set('/f', Buffer.alloc(BYTES))
  const other = await deaf('/files?path=/f') // a reader that begins later and has ended by then
  await until('the other is ended', 10_000, () => bench.table.held.length === 1)
  assert.deepEqual(bench.table.held, [`stream ${bench.workspace_id}`])
  socket.destroy()
  other.destroy()
  await nobody(bench)
})

test('a stalled attached client is ended', SOON_ENOUGH, async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  let sent = 0
  await bench.call('POST', '/exec', { json: { session_id: 'w', argv: ['a'] } })
  bench.agent.script = (_request, response) => {
    response.writeHead(200)
    const piece = Buffer.alloc(65_536, 121)
    const more = () => {
      while (!response.destroyed && response.write(frame(KIND.stdout, sent, piece))) sent += piece.length
      sent += piece.length
    }
    response.on('drain', more)
    more()
  }
  const url = `${bench.gateway.address.replace('http', 'ws')}/v1/workspaces/${bench.workspace_id}/exec/w/attach`
  const client = new WebSocket(url, { headers: { authorization: `Bearer ${await bench.token()}` } })
  client.on('error', () => undefined)
  await once(client, 'message')
  client.pause()
  let seen = -1
  while (seen !== sent) {
    seen = sent
    await new Promise((resolve) => setTimeout(resolve, 200)) // by then the agent has to wait
  }
  for (let looks = 0; looks <= LIMITS.stream.stalled_seconds_max / LIMITS.stream.heartbeat_seconds; looks += 1) t.mock.timers.tick(15_000)
  await nobody(bench)
  client.terminate()
})
