import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { AgentFailure } from '../../service/cell/host/agent-failure.ts'
import { createFrameReader } from '../../service/cell/host/output-frames.ts'
import { bytesOf, eventsOf } from './support/events.ts'
import { generatorOf, testSeed } from '../support/seed.ts'
import { frame, KIND, type Script } from './support/fake-agent.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
before(async () => {
  bench = await openBench()
})
afterEach(() => {
  bench.agent.script = null
})
after(() => bench[Symbol.asyncDispose]())

let count = 0
async function begun(): Promise<{ id: string }> {
  const id = `out-${(count += 1)}`
  await bench.call('POST', '/exec', { json: { session_id: id, argv: ['a'] } })
  return { id }
}
const output = (id: string, query = '', init: Parameters<Bench['call']>[2] = {}) => bench.call('GET', `/exec/${id}/output${query}`, init)
const read = async (id: string, query = '') => eventsOf(await (await output(id, query)).text())

// Frames of a hostile agent, which end the stream. Earlier output stays valid.
const good = frame(KIND.stdout, 0, 'good')
const exit = (change: object) =>
  frame(
    KIND.exit,
    0,
    JSON.stringify({ state: 'exited', exit_code: 0, term_signal: null, timed_out: false, started_at: null, ended_at: null, error: null, stdout_bytes: 4, stderr_bytes: 0, ...change }), // prettier-ignore
  )
const header = (bytes: number[]) => Buffer.from([...bytes, ...Array<number>(16 - bytes.length).fill(0)])
const LIES: [string, Buffer[]][] = [
  ['an offset that goes back', [good, frame(KIND.stdout, 0, 'again')]],
  ['an offset that leaves a gap', [good, frame(KIND.stdout, 5, 'gap')]],
  ['an offset of 2^63', [good, header([1, 0, 0, 0, 0, 0, 0, 1, 128])]],
  ['a length of 0xFFFFFFFF', [good, header([1, 0, 0, 0, 255, 255, 255, 255])]],
  ['output of 64 KiB + 1', [good, frame(KIND.stdout, 4, Buffer.alloc(65_537))]],
  ['output without bytes', [good, frame(KIND.stdout, 4)]],
  ['an unknown kind', [good, frame(9, 0, 'x')]],
  ['kind 0', [good, frame(0, 0)]],
  ['reserved bytes that are set', [good, header([1, 0, 1, 0, 0, 0, 0, 1])]],
  ['a heartbeat with data', [good, frame(KIND.heartbeat, 0, 'x')]],
  ['an exit that is not JSON', [good, frame(KIND.exit, 0, '{')]],
  ['an exit that is not UTF-8', [good, frame(KIND.exit, 0, Buffer.from([0xff, 0xfe]))]],
  ['an exit without fields', [good, frame(KIND.exit, 0, '{}')]],
  ['an exit of 100 MB', [good, header([3, 0, 0, 0, 6, 0, 0, 0])]],
  ['an exit that says running', [good, exit({ state: 'running' })]],
  ['an exit with a negative size', [good, exit({ stdout_bytes: -1 })]],
  ['an exit with a strange signal', [good, exit({ term_signal: 'a\r\nX-Evil: 1' })]],
  ['an error of the gate', [good, frame(KIND.error, 0, '{"code":"unauthenticated","message":"x"}')]],
  ['an end in the middle of a frame', [good, frame(KIND.stdout, 4, 'half').subarray(0, 18)]],
]
for (const [what, frames] of LIES) {
  test(`an agent that sends ${what} ends the stream with an error event`, async () => {
    const { id } = await begun()
    bench.agent.script = sends(frames)
    const events = await read(id)
    assert.equal(bytesOf(events, 'stdout').toString(), what.startsWith('an end') ? 'goodha' : 'good')
    const last = events.at(-1)
    assert.equal(last?.type, 'error')
    assert.equal(last.error?.code, what.startsWith('an end') ? 'dependency_unavailable' : 'internal_error')
    assert.equal(events.filter((event) => event.type !== 'output').length, 1)
  })
}

function sends(frames: Buffer[], piece = Number.MAX_SAFE_INTEGER): Script {
  return async (_request, response) => {
    response.writeHead(200)
    const bytes = Buffer.concat(frames)
    for (let at = 0; at < bytes.length; at += piece) {
      response.write(bytes.subarray(at, at + piece))
      if (piece < 100) await new Promise((resolve) => setImmediate(resolve))
    }
    response.end()
  }
}

test('nothing after the first exit counts', async () => {
  const { id } = await begun()
  bench.agent.script = sends([good, exit({}), exit({ exit_code: 1 }), frame(KIND.stdout, 4, 'more')])
  const events = await read(id)
  assert.deepEqual(
    events.map((event) => [event.type, event['exit_code']]),
    [
      ['output', undefined],
      ['exit', 0],
    ],
  )
})

test('frames that arrive byte by byte are read the same', async () => {
  const { id } = await begun()
  bench.agent.script = sends([good, frame(KIND.stderr, 0, 'err'), frame(KIND.heartbeat, 0), frame(KIND.stdout, 4, '!'), exit({})], 1)
  const events = await read(id)
  assert.equal(bytesOf(events, 'stdout').toString(), 'good!')
  assert.equal(bytesOf(events, 'stderr').toString(), 'err')
  assert.equal(events.at(-1)?.type, 'exit')
})

test('a flood of one-byte frames becomes few events', async () => {
  const { id } = await begun()
  const frames = Array.from({ length: 100_000 }, (_, at) => frame(KIND.stdout, at, 'x'))
  bench.agent.script = sends([...frames, exit({})])
  const events = await read(id)
  assert.equal(bytesOf(events, 'stdout').length, 100_000)
  assert.ok(events.length < 1000, `${events.length} events`)
})

const WRONG_ANSWERS: [string, Script][] = [
  ['no HTTP', (request) => void request.socket.end('nonsense\r\n\r\n')],
  ['JSON that is none', (_request, response) => void response.writeHead(200).end('{')],
  ['a record of another shape', (_request, response) => void response.writeHead(200).end('{"session_id":"a\\r\\nX-Evil: 1"}')],
  ['100 MB', (_request, response) => endless(response)],
  ['an unknown status', (_request, response) => void response.writeHead(302, { location: 'http://169.254.169.254/' }).end()],
  ['a code of the gate', (_request, response) => void response.writeHead(409).end('{"code":"stale_epoch","message":"x"}')],
]
function endless(response: Parameters<Script>[1]): void {
  response.writeHead(200)
  const more = () => {
    while (!response.destroyed && response.write(Buffer.alloc(1 << 20, 32)));
  }
  response.on('drain', more)
  more()
}
for (const [what, script] of WRONG_ANSWERS) {
  test(`an agent that answers ${what} is 500 internal_error, with none of its headers`, async () => {
    const { id } = await begun()
    bench.agent.script = script
    const response = await bench.call('GET', `/exec/${id}`)
    assert.equal(response.headers.get('x-evil'), null)
    assert.equal(await refusalOf(response), '500 internal_error')
  })
}

test('a reason that only the gateway may give is dropped, and details cannot carry it', async () => {
  const { id } = await begun()
  bench.agent.script = (_request, response) =>
    void response.writeHead(409).end('{"code":"conflict","reason":"stale_endpoint","message":"x","details":{"reason":"stale_endpoint"}}')
  assert.equal(await refusalOf(await bench.call('GET', `/exec/${id}`)), '409 conflict')
})

test('for any bytes in any pieces, offsets only grow and only AgentFailure is thrown', () => {
  const seed = testSeed()
  const random = generatorOf(seed)
  for (let round = 0; round < 3000; round += 1) {
    const next = { stdout: 0, stderr: 0 }
    let endings = 0
    const reader = createFrameReader(
      { stdout_offset: 0, stderr_offset: 0 },
      {
        output(stream, offset, data) {
          assert.equal(offset, next[stream], `seed ${seed}`)
          assert.equal(endings, 0, `seed ${seed}`)
          next[stream] += data.length
        },
        exit: () => void (endings += 1),
        error: () => void (endings += 1),
      },
    )
    const bytes = mutate(frames(random), random)
    try {
      for (let at = 0; at < bytes.length;) {
        const piece = 1 + Math.floor(random() * 40)
        reader.push(bytes.subarray(at, at + piece))
        at += piece
      }
    } catch (error) {
      assert.ok(error instanceof AgentFailure, `seed ${seed}: ${String(error)}`)
    }
    assert.ok(endings <= 1, `seed ${seed}`)
  }
})

function frames(random: () => number): Buffer {
  const next = { [KIND.stdout]: 0, [KIND.stderr]: 0 }
  const made = Array.from({ length: 20 }, () => {
    const kind = 1 + Math.floor(random() * 2)
    const data = Buffer.alloc(1 + Math.floor(random() * 30), kind)
    const offset = next[kind] ?? 0
    next[kind] = offset + data.length
    return random() < 0.1 ? frame(KIND.heartbeat, 0) : frame(kind, offset, data)
  })
  return Buffer.concat([...made, exit({})])
}

function mutate(bytes: Buffer, random: () => number): Buffer {
  for (let count = Math.floor(random() * 4); count > 0; count -= 1) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256)
  return bytes
}
