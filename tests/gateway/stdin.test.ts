import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { attach } from '../support/attached.ts'
import { answer, type FakeSession } from './support/fake-agent.ts'
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
async function begun(stdin = ''): Promise<{ id: string; session: FakeSession }> {
  const id = `in-${(count += 1)}`
  const started = await bench.call('POST', '/exec', { json: { session_id: id, argv: ['cat'], stdin, stdin_open: true } })
  assert.equal(started.status, 201)
  return { id, session: bench.agent.sessions.get(id) as FakeSession }
}
const send = (id: string, offset: number, body: string, query = '') =>
  bench.call('POST', `/exec/${id}/stdin?offset=${offset}${query}`, { body })
const record = async (response: Response) => [response.status, await response.json()]
async function refusal(response: Response): Promise<unknown[]> {
  const { error } = (await response.json()) as { error: { code: string; details?: object } }
  return [response.status, error.code, error.details]
}
const base64 = (text: string) => Buffer.from(text).toString('base64')

test('a command with stdin_open reports its stdin offset, and others do not', async () => {
  const { id } = await begun('first')
  const { stdin } = (await (await bench.call('GET', `/exec/${id}`)).json()) as { stdin: object }
  assert.deepEqual(stdin, { offset: 5, open: true })
  const plain = await (await bench.call('POST', '/exec', { json: { argv: ['cat'], stdin: 'first' } })).json()
  assert.ok(!Object.hasOwn(plain as object, 'stdin'))
})

test('stdin_open makes another request of the same session id', async () => {
  const { id } = await begun()
  const again = await bench.call('POST', '/exec', { json: { session_id: id, argv: ['cat'] } })
  assert.equal(await refusalOf(again), '409 conflict/operation_id_reused')
})

test('bytes are written once, however often they are sent, and the last write may close stdin', async () => {
  const { id, session } = await begun('1')
  assert.deepEqual(await record(await send(id, 1, '23')), [200, { offset: 3, open: true }])
  assert.deepEqual(await record(await send(id, 1, '23')), [200, { offset: 3, open: true }])
  assert.deepEqual(await record(await send(id, 2, '3456', '&close=true')), [200, { offset: 6, open: false }])
  assert.deepEqual(await record(await send(id, 2, '3456', '&close=true')), [200, { offset: 6, open: false }])
  assert.equal(session.stdin?.toString(), '123456')
})

test('no bytes and close=true ends stdin', async () => {
  const { id } = await begun()
  assert.deepEqual(await record(await bench.call('POST', `/exec/${id}/stdin?offset=0&close=true`)), [200, { offset: 0, open: false }])
})

test('a gap is stdin_gap and a write after the end is stdin_closed, with the current offset', async () => {
  const { id, session } = await begun('12')
  assert.deepEqual(await refusal(await send(id, 3, 'x')), [409, 'conflict', { reason: 'stdin_gap', stdin_offset: 2 }])
  session.exit()
  assert.deepEqual(await refusal(await send(id, 2, 'x')), [409, 'conflict', { reason: 'stdin_closed', stdin_offset: 2 }])
  assert.equal(session.stdin?.toString(), '12')
})

test('a command without stdin_open accepts no stdin', async () => {
  await bench.call('POST', '/exec', { json: { session_id: 'plain', argv: ['cat'] } })
  assert.deepEqual(await refusal(await send('plain', 0, 'x')), [409, 'conflict', { reason: 'stdin_closed', stdin_offset: 0 }])
})

test('an unknown session is 404, a missing offset 400, and more than 1 MiB 413, without a call to the machine', async () => {
  const { id } = await begun()
  assert.equal(await refusalOf(await send('absent', 0, 'x')), '404 not_found/session_not_found')
  const asked = bench.agent.seen.length
  assert.equal(await refusalOf(await bench.call('POST', `/exec/${id}/stdin`, { body: 'x' })), '400 bad_request')
  assert.equal(await refusalOf(await send(id, 0, 'x'.repeat((1 << 20) + 1))), '413 payload_too_large')
  assert.equal(bench.agent.seen.length, asked)
  assert.equal((await send(id, 0, 'x'.repeat(1 << 20))).status, 200)
})

test('a connection that breaks off is reported as safe to repeat', async () => {
  const { id } = await begun()
  bench.agent.script = (request) => void request.socket.destroy()
  const response = await send(id, 0, 'x')
  const { error } = (await response.json()) as { error: { code: string; retryable: boolean } }
  assert.deepEqual([response.status, error.code, error.retryable], [503, 'dependency_unavailable', true])
})

test('an attached client writes stdin, and each message is acknowledged with its offset', async () => {
  const { id, session } = await begun()
  const attached = await attach(`${bench.gateway.address}/v1/workspaces/${bench.workspace_id}/exec/${id}/attach`, {
    token: await bench.token(),
  })
  attached.say({ type: 'stdin', offset: 0, data: base64('one ') })
  attached.say({ type: 'stdin', offset: 4, data: base64('two'), close: true })
  assert.deepEqual(await attached.next(), { type: 'stdin', offset: 4, open: true })
  assert.deepEqual(await attached.next(), { type: 'stdin', offset: 7, open: false })
  attached.say({ type: 'stdin', offset: 7, data: base64('more') })
  assert.deepEqual(await attached.next(), { type: 'stdin', offset: 7, open: false })
  session.write('stdout', 'x')
  assert.equal((await attached.next())?.type, 'output')
  session.exit()
  assert.equal((await attached.rest()).at(-1)?.type, 'exit')
  assert.equal(session.stdin?.toString(), 'one two')
})

test('an attached client waits until a command has read all that it sent', async () => {
  const { id, session } = await begun()
  session.takes = 3
  const attached = await attach(`${bench.gateway.address}/v1/workspaces/${bench.workspace_id}/exec/${id}/attach`, {
    token: await bench.token(),
  })
  attached.say({ type: 'stdin', offset: 0, data: base64('0123456789'), close: true })
  assert.deepEqual(await attached.next(), { type: 'stdin', offset: 10, open: false })
  assert.equal(session.stdin?.toString(), '0123456789')
  attached.socket.close()
})

const WRONG: [string, object, number][] = [
  ['a gap', { type: 'stdin', offset: 1, data: 'eA==' }, 4409],
  ['no base64', { type: 'stdin', offset: 0, data: 'x' }, 4422],
  ['an unknown field', { type: 'stdin', offset: 0, data: '', last: true }, 4400],
  ['more than 64 KiB', { type: 'stdin', offset: 0, data: base64('x'.repeat((64 << 10) + 1)) }, 4413],
]
for (const [what, message, code] of WRONG) {
  test(`an attached client that sends ${what} is closed with ${code}`, async () => {
    const { id } = await begun()
    const attached = await attach(`${bench.gateway.address}/v1/workspaces/${bench.workspace_id}/exec/${id}/attach`, {
      token: await bench.token(),
    })
    attached.say(message)
    assert.equal((await attached.rest()).at(-1)?.type, 'error')
    assert.equal((await attached.closed).code, code)
  })
}

test("an agent's answer about stdin is checked for its shape", async () => {
  const { id } = await begun()
  bench.agent.script = (_request, response) => answer(response, 200, { offset: -1, open: 'yes' })
  assert.equal(await refusalOf(await send(id, 0, 'x')), '500 internal_error')
})
