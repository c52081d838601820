import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { attach } from '../support/attached.ts'
import { frame } from './support/fake-agent.ts'
import { FakeTerminal, TERMINAL } from './support/fake-terminal.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
let terminal: FakeTerminal
before(async () => {
  bench = await openBench()
})
beforeEach(() => {
  terminal = new FakeTerminal(bench.agent)
})
after(() => bench[Symbol.asyncDispose]())

const call = async (method: string, path: string, init: { json?: unknown } = {}) =>
  bench.call(method, path, { ...init, token: await bench.token({ tools: ['pty'] }) })
const open = (json: unknown) => call('POST', '/pty', { json })
const attached = async (query = '') =>
  attach(`${bench.gateway.address}/v1/workspaces/${bench.workspace_id}/pty/t/attach${query}`, {
    token: await bench.token({ tools: ['pty'] }),
  })
const typed = (text: string) => ({ type: 'input', data: Buffer.from(text).toString('base64') })

test('the agent opens a terminal with its defaults and the environment of commands', async () => {
  const response = await open({ session_id: 't', env: { FROM: 'request', TERM: 'dumb' } })
  assert.deepEqual([response.status, await response.json()], [201, TERMINAL])
  const [{ fingerprint, ...asked }] = terminal.asked.map(({ body }) => body) as [Record<string, unknown>]
  assert.match(String(fingerprint), /^[0-9a-f]{64}$/)
  assert.deepEqual(asked, {
    session_id: 't',
    argv: [],
    cwd: '/home/user',
    user: 'user',
    env: { FROM: 'request', LOWEST: 'template', MIDDLE: 'input', TERM: 'dumb' },
    cols: 80,
    rows: 24,
  })
})

test('another program, size or environment is another request', async () => {
  const requests = [{}, { argv: ['sh'] }, { cols: 81 }, { rows: 25 }, { env: { A: 'b' } }, { cwd: '/' }]
  for (const request of [...requests, {}]) await open({ session_id: 't', ...request })
  const fingerprints = terminal.asked.map(({ body }) => (body as { fingerprint: string }).fingerprint)
  assert.equal(new Set(fingerprints).size, requests.length)
  assert.equal(fingerprints[0], fingerprints.at(-1))
})

const REFUSED: [string, object, string][] = [
  ['a relative cwd', { cwd: 'x' }, '422 validation_failed/invalid_cwd'],
  ['no columns', { cols: 0 }, '422 validation_failed'],
  ['too many rows', { rows: 1001 }, '422 validation_failed'],
  ['an empty argv', { argv: [] }, '422 validation_failed'],
  ['an unknown field', { shell: 'bash' }, '400 bad_request'],
  ['an id of the template', { session_id: 'sfstart.a' }, '422 validation_failed/reserved_prefix'],
  ['a secret', { secret_refs: ['A'] }, '403 forbidden/secret_not_available'],
]
for (const [what, request, refusal] of REFUSED) {
  test(`${what} is ${refusal}, and nothing is asked of the agent`, async () => {
    assert.equal(await refusalOf(await open(request)), refusal)
    assert.deepEqual(terminal.asked, [])
  })
}

test('status, size, input and close come from the agent', async () => {
  const calls: [string, string, unknown?][] = [
    ['GET', '/pty/t'],
    ['POST', '/pty/t/resize', { cols: 100, rows: 30 }],
    ['POST', '/pty/t/input', { data: 'bHM=' }],
    ['DELETE', '/pty/t'],
  ]
  for (const [method, path, json] of calls) {
    const response = await call(method, path, json === undefined ? {} : { json })
    assert.deepEqual([response.status, await response.json()], [200, TERMINAL])
  }
  assert.deepEqual(
    terminal.asked.map(({ method, url, body }) => [method, url, body]),
    calls.map(([method, url, json]) => [method, url, json ?? null]),
  )
})

test('input that is no base64, or too large, is refused', async () => {
  const type = async (data: string) => refusalOf(await call('POST', '/pty/t/input', { json: { data } }))
  assert.equal(await type('a'), '422 validation_failed')
  assert.equal(await type(''), '422 validation_failed')
  assert.equal(await type(Buffer.alloc((64 << 10) + 1).toString('base64')), '413 payload_too_large')
  assert.deepEqual(terminal.asked, [])
})

test('a terminal needs the tool pty', async () => {
  const token = await bench.token({ tools: ['exec'] })
  assert.equal(await refusalOf(await bench.call('GET', '/pty/t', { token })), '403 forbidden')
})

test('an attached terminal sends output without a stream name, takes input and sizes in order, and closes with 1000', async () => {
  const client = await attached('?offset=0')
  await terminal.print('$ ')
  assert.deepEqual(await client.next(), { type: 'output', offset: 0, data: 'JCA=' })
  client.say(typed('ls\n'))
  client.say({ type: 'resize', cols: 120, rows: 40 })
  const wanted = Buffer.concat([frame(16, 0, 'ls\n'), frame(17, 0, Buffer.from([0, 120, 0, 40]))])
  assert.deepEqual(await terminal.took(wanted.length), wanted)
  await terminal.exit()
  assert.deepEqual(await client.rest(), [
    {
      type: 'exit',
      state: 'exited',
      exit_code: 0,
      term_signal: null,
      started_at: '2026-01-01T00:00:00.000Z',
      ended_at: '2026-01-01T00:00:01.000Z',
      error: null,
      output_bytes: 2,
    },
  ])
  assert.deepEqual(await client.closed, { code: 1000, reason: '' })
  assert.deepEqual(
    terminal.asked.map(({ method, url }) => [method, url]),
    [['POST', '/pty/t/attach?offset=0']],
  )
})

const MESSAGES: [object, number][] = [
  [{ type: 'input', data: '%' }, 4422],
  [{ type: 'input', data: Buffer.alloc((64 << 10) + 1).toString('base64') }, 4413],
  [{ type: 'resize', cols: 0, rows: 1 }, 4422],
  [{ type: 'resize', cols: 1 }, 4422],
  [{ type: 'cancel' }, 4400],
]
for (const [message, code] of MESSAGES) {
  test(`${JSON.stringify(message).slice(0, 40)} closes with ${code}`, async () => {
    const client = await attached()
    client.say(message)
    assert.equal((await client.closed).code, code)
    assert.equal(terminal.taken.length, 0)
  })
}

test('a terminal that sends a frame of another kind is 4500', async () => {
  for (const lie of [
    frame(2, 0, 'stderr'),
    frame(1, 5, 'a gap'),
    frame(3, 0, '{"state":"running"}'),
    frame(16, 0, 'x'),
    Buffer.alloc(64, 255),
  ]) {
    terminal = new FakeTerminal(bench.agent)
    const client = await attached()
    await terminal.send(lie)
    assert.equal((await client.closed).code, 4500)
  }
})

test("an agent's refusal to upgrade is passed on, and any other answer is 4500", async () => {
  bench.agent.upgrade = (_request, socket) =>
    socket.end(
      'HTTP/1.1 404 Not Found\r\ncontent-length: 59\r\n\r\n{"code":"not_found","reason":"session_not_found","message":""}'.replace(
        '59',
        '62',
      ),
    )
  assert.equal((await (await attached()).closed).code, 4404)
  bench.agent.upgrade = (_request, socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
  assert.equal((await (await attached()).closed).code, 4500)
})
