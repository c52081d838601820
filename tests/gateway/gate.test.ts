import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createCallPermits } from '../../service/cell/admission/call-permits.ts'
import type { Hold, WorkspaceEntry } from '../../service/cell/machines/table.ts'
import { until } from '../support/processes.ts'
import { type Bench, openBench, refusalOf, SOON } from './support/gateway.ts'

const OPERATION = '018f0000-0000-7000-8000-000000000001'
const hold = (gate: Hold['gate']): Hold => ({ operation_id: OPERATION, operation_kind: 'suspend', gate })

let bench: Bench
let good: WorkspaceEntry
before(async () => {
  bench = await openBench()
  good = bench.life.entry
  await bench.call('POST', '/exec', { json: { session_id: 's', argv: ['a'] } })
})
beforeEach(() => bench.table.entries.set(bench.workspace_id, good))
after(() => bench[Symbol.asyncDispose]())

const set = (change: Partial<WorkspaceEntry>) => bench.table.set(bench.workspace_id, change)
const status = () => bench.call('GET', '/exec/s')

// Each case also has the defects of all later ones, so each line proves which refusal comes first.
const ORDER: [string, () => void, string][] = [
  ['not running', () => set({ observed_state: 'suspended', machine: null }), '409 workspace_not_running'],
  ['busy', () => set({ hold: hold('closed') }), '409 workspace_busy'],
  ['an old epoch', () => set({ ownership_epoch: 4 }), '409 stale_epoch'],
  ['elsewhere', () => set({ here: false, cell_id: OPERATION }), '409 conflict/stale_endpoint'],
]
for (let count = 1; count <= ORDER.length; count += 1) {
  const [what, , refusal] = ORDER[count - 1] as (typeof ORDER)[number]
  test(`${what} is ${refusal}, whatever is wrong below it and with the request`, async () => {
    for (const [, arrange] of ORDER.slice(0, count)) arrange()
    assert.equal(await refusalOf(await bench.call('POST', '/exec', { json: { nonsense: true } })), refusal)
  })
}

test('403 wins over the state of the workspace, 401 over 403', async () => {
  for (const [, arrange] of ORDER) arrange()
  assert.equal(await refusalOf(await bench.call('GET', '/exec/s', { token: await bench.token({ tools: ['files'] }) })), '403 forbidden')
  set({ tokens_revoked_before: new Date() })
  assert.equal(
    await refusalOf(await bench.call('GET', '/exec/s', { token: await bench.token({ tools: ['files'] }) })),
    '401 unauthenticated/revoked_watermark',
  )
})

test('workspace_busy names the operation, its kind and the gate, and is retryable', async () => {
  set({ hold: hold('closed') })
  const { error } = (await (await status()).json()) as { error: Record<string, unknown> }
  assert.deepEqual(
    [error['code'], error['operation_id'], error['retryable'], error['details']],
    ['workspace_busy', OPERATION, true, { operation_kind: 'suspend', tool_gate: 'closed' }],
  )
})

test('a call of another mode is refused by the mode of its workspace, whatever its state, and wakes nothing', async () => {
  const { ready, wake } = bench.waking
  const woken: string[] = []
  Object.assign(bench.waking, { ready: () => null, wake: async ({ id }: WorkspaceEntry) => void woken.push(id) })
  const touched = bench.table.touched.length
  const execution = () => bench.call('GET', '/executions/abcdefgh')
  const parked = { residency: 'hibernated', machine: null, suspend_requested_at: new Date() } as const
  for (const change of [{}, parked, { observed_state: 'suspended' }, { observed_state: 'failed' }, { hold: hold('closed') }] as const) {
    set(change)
    const response = await execution()
    const { error } = (await response.json()) as { error: Record<string, unknown> }
    assert.deepEqual([response.status, error['code'], error['retryable']], [409, 'conflict', false])
    assert.deepEqual(error['details'], { reason: 'not_supported_for_mode', mode: 'processful', operation: 'executions' })
  }
  set({ ownership_epoch: 4 })
  assert.equal(await refusalOf(await execution()), '409 stale_epoch')
  assert.deepEqual([woken, bench.table.touched.length], [[], touched])
  Object.assign(bench.waking, { ready, wake })
})

test('reads are served during the capture of a snapshot, and changes are not', async () => {
  set({ hold: { ...hold('read_only'), operation_kind: 'snapshot' } })
  assert.equal((await status()).status, 200)
  assert.equal(await refusalOf(await bench.call('POST', '/exec', { json: { argv: ['a'] } })), '409 workspace_busy')
  set({ hold: hold('open') })
  assert.equal((await bench.call('POST', '/exec', { json: { argv: ['a'] } })).status, 201)
})

test('every state but running is workspace_not_running', async () => {
  for (const observed_state of ['creating', 'starting', 'suspending', 'suspended', 'resuming', 'forking', 'stopping', 'failed'] as const) {
    set({ observed_state, machine: null })
    assert.equal(await refusalOf(await status()), '409 workspace_not_running', observed_state)
  }
})

test('a machine that the host has not reported yet is 503 dependency_unavailable', async () => {
  set({ machine: null })
  assert.equal(await refusalOf(await status()), '503 dependency_unavailable')
})

test('a deleted workspace is 401 revoked_workspace, and one whose row is gone is 404', async () => {
  set({ deleted_at: new Date(), desired_state: 'deleted' })
  assert.equal(await refusalOf(await status()), '401 unauthenticated/revoked_workspace')
  bench.table.entries.delete(bench.workspace_id)
  assert.equal(await refusalOf(await status()), '404 not_found')
})

test('admission reads the row again before a refusal, so that a change without its NOTIFY counts', async () => {
  bench.table.stale.set(bench.workspace_id, { ...good, ownership_epoch: 2, observed_state: 'suspended', machine: null })
  assert.equal((await status()).status, 200)
})

test('a served call reads neither the database nor the table twice', async () => {
  const before = bench.table.fresh_asked
  assert.equal((await status()).status, 200)
  assert.equal(bench.table.fresh_asked, before)
})

test('a tool call counts as activity and holds the machine until it ends, and a keepalive does neither', async () => {
  const before = bench.table.touched.length
  let seen: string[] = []
  bench.agent.script = (_request, response) => {
    seen = [...bench.table.held]
    response.writeHead(404).end('{"code":"not_found","message":"x"}')
  }
  await status()
  bench.agent.script = null
  assert.deepEqual([seen, bench.table.touched.length - before], [[`call ${bench.workspace_id}`], 1])
  await bench.call('POST', '/keepalive', { json: { seconds: 1 } })
  assert.equal(bench.table.touched.length - before, 1)
  assert.deepEqual(bench.table.held, [])
})

test('the 129th concurrent call is 429 with Retry-After: 1, and a released permit is used again', async () => {
  const waiting = Promise.withResolvers<void>()
  bench.agent.script = async (_request, response) => {
    await waiting.promise
    response.writeHead(404).end('{"code":"not_found","message":"x"}')
  }
  const arrived = bench.agent.seen.length
  const token = await bench.token()
  const calls = Array.from({ length: 128 }, () => bench.call('GET', '/exec/s', { token }))
  while (bench.agent.seen.length < arrived + 128) await new Promise((resolve) => setTimeout(resolve, 2))
  const over = await status()
  assert.equal(over.headers.get('retry-after'), '1')
  assert.equal(await refusalOf(over), '429 rate_limited')
  waiting.resolve()
  await Promise.all(calls)
  bench.agent.script = null
  assert.equal((await status()).status, 200)
})

const TOO_MANY = { code: 'service_unavailable', reason: 'too_many_streams' }

test('streams are bounded per workspace, per organization and in total', () => {
  const places = createCallPermits({ calls: 1, streams: 2, organization_streams: 3, all_streams: 9 })
  const open = (id: string, organization_id: string) => places.take({ id, organization_id }, 'stream')
  const first = open('a', 'first')
  open('a', 'first')
  assert.throws(() => open('a', 'first'), { code: 'rate_limited' })
  open('b', 'first')
  assert.throws(() => open('c', 'first'), TOO_MANY)
  first[Symbol.dispose]()
  first[Symbol.dispose]()
  open('c', 'first')
  assert.throws(() => open('d', 'first'), TOO_MANY)
  assert.equal(places.streams(), 3)
})

test('organizations that open all the streams they can leave some to the next', () => {
  const places = createCallPermits({ calls: 1, streams: 1000, organization_streams: 1000, all_streams: 1000 })
  const takeAll = (organization_id: string) => {
    for (let taken = 0; ; taken += 1) {
      try {
        places.take({ id: `${organization_id} ${taken}`, organization_id }, 'stream')
      } catch (error) {
        assert.throws(() => {
          throw error
        }, TOO_MANY)
        return taken
      }
    }
  }
  assert.deepEqual(['first', 'second', 'third', 'fourth'].map(takeAll), [500, 250, 125, 63])
})

test('an agent that does not know our key has executed nothing: 503 dependency_unavailable', async () => {
  bench.agent.key = 'another'
  assert.equal(await refusalOf(await bench.call('POST', '/exec', { json: { argv: ['a'] } })), '503 dependency_unavailable')
  bench.agent.key = 'agent-key'
})

test('an unreachable agent whose machine was just suspended is reported as suspended', async () => {
  bench.agent.key = 'another'
  bench.table.stale.set(bench.workspace_id, good)
  set({ ownership_epoch: 4, observed_state: 'suspended', machine: null })
  assert.equal(await refusalOf(await status()), '409 stale_epoch')
  bench.agent.key = 'agent-key'
})

test('an agent that never answers is 504 timeout', async () => {
  await using own = await openBench({ agent_deadlines: SOON })
  own.agent.script = () => undefined
  assert.equal(await refusalOf(await own.call('GET', '/exec/s')), '504 timeout')
})

test('a connection that breaks leaves a start unknown: 409 operation_interrupted with its session id', async () => {
  bench.agent.script = (request) => void request.socket.destroy()
  const response = await bench.call('POST', '/exec', { json: { argv: ['a'] } })
  const { error } = (await response.json()) as { error: { code: string; details: { reason: string; session_id: string } } }
  assert.deepEqual([response.status, error.code, error.details.reason], [409, 'conflict', 'operation_interrupted'])
  assert.match(error.details.session_id, /^[0-9a-f-]{36}$/)
  bench.agent.script = null
})

test('the next incarnation gets connections of its own', async () => {
  await status()
  const before = bench.agent.connections
  const ended = bench.agent.sockets.size
  assert.ok(ended > 0)
  bench.life.end('epoch_ended')
  set({
    ownership_epoch: 4,
    machine: { ...(good.machine as NonNullable<WorkspaceEntry['machine']>), epoch: 4 },
    gone: new AbortController().signal,
  })
  assert.equal((await bench.call('GET', '/exec/s', { token: await bench.token({ epoch: 4 }) })).status, 200)
  assert.equal(bench.agent.connections, before + 1)
})

test('a machine that was greeted has a connection for its first call', async () => {
  await using own = await openBench()
  const { id, machine, gone } = own.life.entry
  assert.ok(machine)
  own.agents.greet(id, machine, gone)
  await until('it is greeted', 5000, () => own.agent.seen.some(({ url }) => url === '/incarnation'))
  assert.equal((await own.call('GET', '/exec/s')).status, 404)
  assert.equal(own.agent.connections, 1)
})

test('greeting a machine that breaks off, never answers or has ended does no harm', async () => {
  await using own = await openBench({ agent_deadlines: SOON })
  const { id, machine } = own.life.entry
  assert.ok(machine)
  own.agent.script = (request) => void request.socket.destroy()
  own.agents.greet(id, machine, new AbortController().signal)
  own.agents.greet(id, { ...machine, epoch: 8 }, AbortSignal.abort('died'))
  await until('it broke off', 5000, () => own.agent.seen.length > 0)
  own.agent.script = () => undefined
  own.agents.greet(id, { ...machine, epoch: 9 }, new AbortController().signal)
  await sleep(2 * SOON.answer_ms)
  own.agent.script = null
  assert.equal((await own.call('GET', '/exec/s')).status, 404)
})
