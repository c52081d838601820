import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { eventsOf, following, next } from './support/events.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
before(async () => {
  bench = await openBench()
})
afterEach(() => {
  bench.agent.script = null
})
after(() => bench[Symbol.asyncDispose]())

const watch = (query = '', init: Parameters<Bench['call']>[2] = {}) => bench.call('GET', `/files/watch?path=/home/user/d${query}`, init)

const START = { type: 'start', watch_id: 'W1', offset: 0, missed: false }
const ADDED = { type: 'change', offset: 1, path: '/home/user/d/é\\xff', change: 'added', is_directory: false }
const END = { type: 'end', offset: 2, why: 'deleted' }

function says(lines: (object | string)[], open = false): string[] {
  const asked: string[] = []
  bench.agent.script = (request, response) => {
    asked.push(request.url ?? '')
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    for (const line of lines) response.write(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`)
    if (!open) response.end()
  }
  return asked
}

test("events are passed on in ASCII, one a line, and end with the agent's end", async () => {
  const asked = says([START, { type: 'heartbeat' }, ADDED, END])
  const answer = await watch()
  assert.deepEqual([answer.status, answer.headers.get('content-type')], [200, 'application/x-ndjson'])
  const text = await answer.text()
  assert.match(text, /^[\0-\x7f]*$/)
  assert.deepEqual(eventsOf(text), [START, ADDED, END])
  assert.deepEqual(asked, ['/files/watch?path=%2Fhome%2Fuser%2Fd&recursive=false'])
})

test('a watch continues by its id and offset, as Server-Sent Events too', async () => {
  const asked = says([{ ...START, offset: 7 }, END])
  const answer = await watch('&recursive=true&watch_id=W1&offset=7', { headers: { accept: 'text/event-stream' } })
  assert.equal(answer.headers.get('content-type'), 'text/event-stream')
  const events = (await answer.text()).split('\n\n')
  assert.deepEqual(
    events.slice(0, -1),
    [{ ...START, offset: 7 }, END].map((event) => `data: ${JSON.stringify(event)}`),
  )
  assert.deepEqual(asked, ['/files/watch?path=%2Fhome%2Fuser%2Fd&recursive=true&watch_id=W1&offset=7'])
})

test('an event is passed on as soon as it arrives, even in pieces, and a dead machine is an error event', async () => {
  const more = Promise.withResolvers<(text: string) => void>()
  bench.agent.script = (_request, response) => {
    response.writeHead(200).flushHeaders()
    more.resolve((text) => void response.write(text))
  }
  const events = following(await watch())
  const write = await more.promise
  write(`${JSON.stringify(START)}\n${JSON.stringify(ADDED).slice(0, 20)}`)
  assert.deepEqual(await next(events), START)
  write(`${JSON.stringify(ADDED).slice(20)}\n`)
  assert.deepEqual(await next(events), ADDED)
  bench.agent.cut()
  assert.equal((await next(events)).type, 'error')
})

for (const [what, line] of [
  ['no JSON', 'x'],
  ['no object', '7'],
  ['null', 'null'],
  ['an unknown type', { type: 'exit' }],
  ['an inherited type', { type: 'constructor' }],
  ['a change without a path', { type: 'change', offset: 1, change: 'added', is_directory: false }],
  ['an offset that is none', { ...START, offset: -1 }],
  ['a line without an end', 'x'.repeat(100_000)],
] as const)
  test(`an agent that says ${what} is broken off with internal_error`, async () => {
    says([START, line], true)
    const events = eventsOf(await (await watch()).text())
    assert.deepEqual([events[0], events.length, events.at(-1)?.error?.code], [START, 2, 'internal_error'])
  })

test("an agent's refusal is passed on before the stream begins", async () => {
  for (const [status, code, reason] of [
    [404, 'not_found', 'path_not_found'],
    [409, 'conflict', 'not_a_directory'],
    [429, 'rate_limited', 'watches'],
  ] as const) {
    bench.agent.script = (_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ code, reason, message: 'No' }))
    }
    assert.equal(await refusalOf(await watch()), `${status} ${code}${reason === 'watches' ? '' : `/${reason}`}`)
  }
})

test('an invalid path or id is refused without a call to the machine', async () => {
  const asked = says([])
  assert.equal(await refusalOf(await bench.call('GET', '/files/watch?path=relative')), '422 validation_failed/invalid_path')
  assert.equal(await refusalOf(await watch('&watch_id=a/b')), '400 bad_request')
  assert.deepEqual(asked, [])
})
