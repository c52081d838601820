import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { after, afterEach, before, test } from 'node:test'
import { createStartedStreams } from '../../service/cell/host/started-streams.ts'
import { bytesOf, eventsOf } from './support/events.ts'
import { type FakeSession, frame, KIND, type Script } from './support/fake-agent.ts'
import { type Bench, openBench, refusalOf, SOON } from './support/gateway.ts'

let bench: Bench
before(async () => {
  bench = await openBench()
})
afterEach(() => {
  bench.agent.script = null
  bench.agent.follows = true
})
after(() => bench[Symbol.asyncDispose]())

const start = (session_id: string, on = bench) => on.call('POST', '/exec', { json: { session_id, argv: ['a'] } })
const read = async (id: string, query = '') => eventsOf(await (await bench.call('GET', `/exec/${id}/output${query}`)).text())
const asked = (id: string) => bench.agent.seen.filter(({ url }) => url.startsWith(`/exec/${id}/output`)).length
const session = (id: string) => bench.agent.sessions.get(id) as FakeSession

test("the first follower from the beginning gets the start's stream, and every other one asks the machine", async () => {
  bench.agent.follows = true
  assert.equal((await start('first')).status, 201)
  session('first').write('stdout', 'all of it')
  session('first').exit()
  const reads: [string, number][] = [['', 0], ['', 1], ['?stdout_offset=4', 2], ['?follow=false', 3]] // prettier-ignore
  for (const [query, requests] of reads) {
    const events = await read('first', query)
    assert.equal(bytesOf(events, 'stdout').toString(), query === '?stdout_offset=4' ? 'of it' : 'all of it')
    assert.equal(events.at(-1)?.type, 'exit')
    assert.equal(asked('first'), requests, query)
  }
})

test('a repeated start brings no stream, and the kept stream stays', async () => {
  await start('repeated')
  assert.equal((await start('repeated')).status, 200)
  session('repeated').exit()
  assert.equal((await read('repeated')).at(-1)?.type, 'exit')
  assert.equal(asked('repeated'), 0)
})

test('an agent of an old checkpoint answers a start with the record alone, and output is a second call', async () => {
  bench.agent.follows = false
  assert.equal((await start('old')).status, 201)
  session('old').exit()
  assert.equal((await read('old')).at(-1)?.type, 'exit')
  assert.equal(asked('old'), 1)
})

test('a kept stream whose connection broke is requested again', async () => {
  await start('broken')
  bench.agent.cut()
  session('broken').write('stdout', 'whole')
  session('broken').exit()
  assert.equal(bytesOf(await read('broken'), 'stdout').toString(), 'whole')
})

const frames =
  (...all: Buffer[]): Script =>
  (_request, response) => {
    response.writeHead(201, { 'content-type': 'application/octet-stream' })
    response.end(Buffer.concat(all))
  }
const LIES: [string, Script, string][] = [
  ['output before the record', frames(frame(KIND.stdout, 0, 'x')), '500 internal_error'],
  ['a record at an offset', frames(frame(KIND.record, 7, '{}')), '500 internal_error'],
  ['a record of no length', frames(frame(KIND.record, 0)), '500 internal_error'],
  ['a record of 100 MB', frames(Buffer.from([6, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])), '500 internal_error'],
  ['a record that is not JSON', frames(frame(KIND.record, 0, '{')), '500 internal_error'],
  ['a record of another shape', frames(frame(KIND.record, 0, '{"session_id":"a\\r\\nX-Evil: 1"}')), '500 internal_error'],
  ['half a record', frames(frame(KIND.record, 0, '{"session_id"').subarray(0, 20)), '409 conflict/operation_interrupted'],
  ['nothing', frames(), '409 conflict/operation_interrupted'],
]
for (const [what, script, refusal] of LIES) {
  test(`an agent that answers a start with ${what} is ${refusal}`, async () => {
    bench.agent.script = script
    assert.equal(await refusalOf(await start('lie')), refusal)
    assert.equal(asked('lie'), 0)
  })
}

test('an agent that falls silent within its record is a timeout', async () => {
  await using own = await openBench({ agent_deadlines: SOON })
  own.agent.script = (_request, response) => {
    response.writeHead(201, { 'content-type': 'application/octet-stream' }).write(frame(KIND.record, 0, '{}').subarray(0, 17))
  }
  assert.equal(await refusalOf(await start('silent', own)), '504 timeout')
})

test('a record that arrives byte by byte, with output behind it, is read the same', async () => {
  const record = { ...session('first').view(), session_id: 'bytes' }
  const exit = { ...record, state: 'exited' }
  const all = Buffer.concat([
    frame(KIND.record, 0, JSON.stringify(record)),
    frame(KIND.stdout, 0, 'out'),
    frame(KIND.exit, 0, JSON.stringify(exit)),
  ])
  bench.agent.script = async (_request, response) => {
    response.writeHead(201, { 'content-type': 'application/octet-stream' })
    for (const byte of all) {
      response.write(Buffer.from([byte]))
      await new Promise((resolve) => setImmediate(resolve))
    }
    response.end()
  }
  assert.equal((await start('bytes')).status, 201)
  assert.equal(bytesOf(await read('bytes'), 'stdout').toString(), 'out')
})

test('kept streams are bounded in number and time, then their connection is closed', async () => {
  const kept = createStartedStreams({ streams: 2, kept_ms: 20 })
  const streams = [new PassThrough(), new PassThrough()] as unknown as IncomingMessage[]
  streams.forEach((stream, at) => kept.keep(`s${at}`, stream))
  assert.equal(kept.open(), false)
  await Promise.all(streams.map((stream) => once(stream, 'close')))
  assert.deepEqual([kept.open(), kept.take('s0'), kept.take('s1')], [true, undefined, undefined])
})
