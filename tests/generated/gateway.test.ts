import assert from 'node:assert/strict'
import type { Writable } from 'node:stream'
import { after, before, beforeEach, describe, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { toolOf } from '../../contract/access.ts'
import { declares, errorsOf } from '../../contract/route-errors.ts'
import { serves, TOOLS, type CellRoute } from '../../contract/route.ts'
import { MODES } from '../../contract/schemas/workspaces.ts'
import { CELL_ROUTES } from '../../contract/routes/cell/all.ts'
import { createCallPermits } from '../../service/cell/admission/call-permits.ts'
import { createSignatures } from '../../service/cell/admission/signatures.ts'
import { hostFull, takenOver, wakeFailed } from '../../service/cell/machines/parking-refusals.ts'
import type { WorkspaceEntry } from '../../service/cell/machines/table.ts'
import { openBench, SOON, type Bench } from '../gateway/support/gateway.ts'
import { until } from '../support/processes.ts'
import { callRoute, type CallOptions } from './gateway-call.ts'
import { sampleOf } from './samples.ts'
import { contentOfTables } from './tables.ts'

const OTHER = '018f0000-0000-7000-8000-000000000001'
const declaring = (code: string, reason: string | null = null) => CELL_ROUTES.filter((route) => declares(errorsOf(route), code, reason))

async function expectOf(routes: readonly CellRoute[], expected: string, send: (route: CellRoute) => Promise<string>): Promise<void> {
  const said: [string, string][] = []
  for (const route of routes) said.push([route.id, await send(route)])
  assert.deepEqual(
    said,
    routes.map(({ id }) => [id, expected]),
  )
}

describe('every route of the gateway', () => {
  let bench: Bench
  let good: WorkspaceEntry
  before(async () => {
    bench = await openBench()
    good = bench.life.entry
    await key({ tool_permissions: [...TOOLS] })
  })
  beforeEach(() => {
    bench.table.entries.set(bench.workspace_id, good)
    bench.agent.script = null
    // Refuses at once: a silent agent would delay each test until its deadline. One test has a silent agent and a short deadline.
    setUpgrade((_request, socket) => socket.destroy())
  })
  after(() => bench[Symbol.asyncDispose]())

  const all = (expected: string, options: CallOptions = {}, routes = CELL_ROUTES) =>
    expectOf(routes, expected, (route) => callRoute(bench, route, options))
  const setUpgrade = (upgrade: (request: unknown, socket: Writable) => void) => Object.assign(bench.agent, { upgrade })
  const set = (change: Partial<WorkspaceEntry>) => bench.table.set(bench.workspace_id, change)
  const key = (change: object) => bench.database.superuser.updateTable('api_keys').set(change).where('id', '=', bench.api_key_id).execute()

  test('demands a token', () => all('401 unauthenticated', { token: null }))
  test('accepts no API key', () => all('401 unauthenticated', { token: `sfk_a_${'b'.repeat(40)}` }))

  test('refuses a token of another workspace with 403, and touches neither it nor its machine', async () => {
    const before = await contentOfTables(bench.database.superuser)
    const seen = bench.agent.seen.length
    await all('403 forbidden', { workspace_id: OTHER })
    const token = await bench.token({ ws: OTHER })
    bench.table.entries.set(OTHER, { ...good, id: OTHER })
    await all('403 forbidden', { token })
    bench.table.entries.delete(OTHER)
    assert.deepEqual([await contentOfTables(bench.database.superuser), bench.agent.seen.length], [before, seen])
  })

  test('that is a WebSocket tells a plain request to ask for an upgrade', async () => {
    for (const route of CELL_ROUTES.filter(({ websocket }) => websocket !== undefined)) {
      const { path } = sampleOf(route, { workspace_id: bench.workspace_id })
      const response = await fetch(`${bench.gateway.address}${path}`, {
        headers: { authorization: `Bearer ${await bench.token({ tools: [...TOOLS] })}` },
      })
      assert.equal(response.status, 400, route.id)
    }
  })

  test('refuses an invalid id', () => all('400 bad_request', { workspace_id: 'not-a-uuid' }))

  test('accepts a token with its tool, and refuses one with all the others', async () => {
    for (const route of CELL_ROUTES) {
      const tool = toolOf(route)
      const others = await callRoute(bench, route, { token: await bench.token({ tools: TOOLS.filter((each) => each !== tool) }) })
      assert.equal(others === '403 forbidden', tool !== 'any', `${route.id} ${others}`)
      const own = await callRoute(bench, route, { token: await bench.token({ tools: tool === 'any' ? ['git'] : [tool ?? 'git'] }) })
      assert.ok(!/^(4?401|4?403) /.test(own), `${route.id} ${own}`)
    }
  })

  test('accepts no session of a person', () => all('401 unauthenticated', { token: `sfu_${'a'.repeat(43)}` }))

  test('refuses query parameters that it does not know', () =>
    all(
      '400 bad_request',
      { query: 'nonsense=1' },
      CELL_ROUTES.filter((route) => serves(route, 'processful')),
    ))

  test('answers 404 for a workspace whose row is gone, and 401 for a deleted one', async () => {
    set({ deleted_at: new Date() })
    await all('401 unauthenticated/revoked_workspace')
    bench.table.entries.delete(bench.workspace_id)
    await all('404 not_found')
  })

  test('refuses a workspace for its state before the request is parsed', async () => {
    const of_the_mode = CELL_ROUTES.filter((route) => serves(route, 'processful'))
    const others = CELL_ROUTES.filter((route) => !serves(route, 'processful'))
    const served = async (expected: string) => {
      await all(expected, {}, of_the_mode)
      await all('409 conflict/not_supported_for_mode', {}, others)
    }
    set({ machine: null })
    await served('503 dependency_unavailable')
    // Not suspended, because the disk would answer reads (tests/gateway/disk-reads.test.ts).
    set({ observed_state: 'failed' })
    await served('409 workspace_not_running')
    set({ hold: { operation_id: OTHER, operation_kind: 'suspend', gate: 'closed' } })
    await served('409 workspace_busy')
    set({ ownership_epoch: 4 })
    await all('409 stale_epoch')
    set({ here: false, cell_id: OTHER })
    await all('409 conflict/stale_endpoint')
    set({ tokens_revoked_before: new Date(Date.now() + 3600_000) })
    await all('401 unauthenticated/revoked_watermark')
  })

  test("refuses a workspace of a mode that it does not serve, whatever the workspace's state", async () => {
    const others = CELL_ROUTES.filter((route) => !serves(route, 'file_first'))
    const seen = bench.agent.seen.length
    const hold = { operation_id: OTHER, operation_kind: 'suspend', gate: 'closed' } as const
    for (const change of [{}, { machine: null }, { observed_state: 'failed' }, { hold }] as const) {
      set({ mode: 'file_first', ...change })
      await all('409 conflict/not_supported_for_mode', {}, others)
    }
    assert.equal(bench.agent.seen.length, seen)
    const own = others.map((route) => declares(errorsOf(route), 'conflict', 'not_supported_for_mode'))
    assert.deepEqual(
      own,
      others.map(() => true),
    )
    for (const mode of MODES) {
      const served = CELL_ROUTES.filter((route) => serves(route, mode))
      set({ ...good, mode, hold: null })
      for (const route of served)
        assert.notEqual(await callRoute(bench, route), '409 conflict/not_supported_for_mode', `${mode} ${route.id}`)
    }
  })

  test('reports why a parked machine cannot be woken', async () => {
    const { ready, wake } = bench.waking
    // The sample of idle.keepalive ends a keepalive, which wakes nothing.
    const asking = declaring('service_unavailable', 'wake_failed').filter(({ id }) => id !== 'idle.keepalive')
    bench.waking.ready = () => null
    const refusals: [Error, string][] = [
      [wakeFailed(), '503 service_unavailable/wake_failed'],
      [hostFull(), '503 service_unavailable/host_capacity'],
      [takenOver(), '409 workspace_busy/workspace_fenced'],
    ]
    for (const [refusal, expected] of refusals) {
      bench.waking.wake = () => Promise.reject(refusal)
      await all(expected, {}, asking)
    }
    Object.assign(bench.waking, { ready, wake })
  })

  test('serves nothing once the gateway has lost its database', async () => {
    bench.table.lost_ms = LIMITS.credential.revocation_seconds_max * 1000
    await all('503 service_unavailable')
    bench.table.lost_ms = 0
  })

  test("answers 503 when the workspace's row cannot be read", async () => {
    const get = bench.table.get
    bench.table.get = () => {
      throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED', syscall: 'connect' })
    }
    await all('503 dependency_unavailable')
    bench.table.get = get
  })

  test('answers 500 for an unexpected error', async () => {
    const get = bench.table.get
    bench.table.get = () => {
      throw new Error('unforeseen')
    }
    await all('500 internal_error')
    bench.table.get = get
  })

  test('refuses bodies that are not its own', async () => {
    const of_machines = CELL_ROUTES.filter((route) => serves(route, 'processful'))
    const parsed = of_machines.filter(({ method, body }) => method !== 'GET' && body !== 'bytes')
    const headers = { 'content-type': 'application/json' }
    await all('400 bad_request', { body: '{', headers }, parsed)
    await all('400 bad_request', { body: '', headers }, parsed)
    await all('400 bad_request', { body: '{}', headers: { 'content-type': 'text/plain' } }, parsed)
    await all('400 bad_request', { body: '{"nonsense":1}', headers }, parsed)
    await all('422 validation_failed', { body: '[]', headers }, parsed)
    const takes = declaring('payload_too_large').filter((route) => route.method !== 'GET' && serves(route, 'processful'))
    await expectOf(takes, '413 payload_too_large', (route) =>
      callRoute(bench, route, { body: ' '.repeat((route.body_bytes_max ?? LIMITS.json.body_bytes_max) + 1), headers }),
    )
  })

  test("passes on a guest's refusal without a reason that only the gateway may give", async () => {
    const say = (status: number, code: string, reason: string) => {
      const body = JSON.stringify({ code, reason, message: 'No' })
      const head = `HTTP/1.1 ${status} No\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n`
      bench.agent.script = (_request, response) => void response.writeHead(status, { 'content-type': 'application/json' }).end(body)
      setUpgrade((_request, socket) => socket.end(head + body))
    }
    say(409, 'conflict', 'stale_endpoint')
    await all('409 conflict', {}, declaring('conflict'))
    for (const reason of ['disk_full', 'too_many_sessions', 'resource_limit', 'terminal_full']) {
      say(429, 'rate_limited', reason)
      const asked = declaring('rate_limited', reason).filter((route) => serves(route, 'processful'))
      await all(`429 rate_limited/${reason}`, {}, asked)
    }
    say(404, 'not_found', 'session_not_found')
    await all('404 not_found/session_not_found', {}, declaring('not_found', 'session_not_found'))
    for (const reason of ['host_feature_unavailable', 'session_ended', 'not_permitted', 'path_busy']) {
      say(409, 'conflict', reason)
      await all(`409 conflict/${reason}`, {}, declaring('conflict', reason))
    }
    say(409, 'conflict', 'output_expired')
    const sockets = declaring('conflict', 'output_expired').filter(({ websocket }) => websocket !== undefined)
    await all('409 conflict/output_expired', {}, sockets)
  })

  test('reports a machine that is unreachable, silent or breaks off', async () => {
    const asking = declaring('timeout')
    bench.agent.script = (request) => void request.socket.destroy()
    const changes = declaring('conflict', 'operation_interrupted').filter(({ method }) => method !== 'GET')
    await all('409 conflict/operation_interrupted', {}, changes)
    bench.agent.script = (_request, response) => void response.writeHead(200).end('nonsense')
    await all(
      '500 internal_error',
      {},
      asking.filter((route) => route.answers[200]?.schema !== undefined && route.id !== 'exec.output'),
    )
    await using mute = await openBench({ agent_deadlines: SOON })
    await mute.database.superuser
      .updateTable('api_keys')
      .set({ tool_permissions: [...TOOLS] })
      .execute()
    mute.agent.script = () => undefined
    const heard = async () => (await callRoute(mute, asking.find((route) => toolOf(route) === 'browser') as CellRoute)) === '504 timeout'
    await until('the gateway has heard of the tools', 30_000, heard)
    const silent = await Promise.all(asking.map(async (route) => [route.id, await callRoute(mute, route)]))
    assert.deepEqual(
      silent,
      asking.map(({ id }) => [id, '504 timeout']),
    )
  })

  test('refuses tokens of a key that was revoked or lost its tool', async () => {
    await key({ tool_permissions: ['git'] })
    const token = await bench.token({ tools: ['exec'] })
    const first = () => callRoute(bench, CELL_ROUTES[0] as CellRoute, { token })
    await until('the tool is lost', 30_000, async () => (await first()) === '401 unauthenticated/revoked_api_key_tools')
    await all('401 unauthenticated/revoked_api_key_tools', { token })
    await key({ revoked_at: new Date() })
    await until('the key is revoked', 30_000, async () => (await first()) === '401 unauthenticated/revoked_api_key')
    await all('401 unauthenticated/revoked_api_key', { token })
  })
})

test('every route of the gateway is 429 when its workspace has no call permit left, and 503 during shutdown', async () => {
  await using full = await openBench({ places: createCallPermits({ calls: 0, streams: 0, organization_streams: 0, all_streams: 0 }) })
  await full.database.superuser
    .updateTable('api_keys')
    .set({ tool_permissions: [...TOOLS] })
    .execute()
  const browser = declaring('conflict', 'guest_feature_unavailable').slice(0, 1)
  await until('there is no place', 30_000, async () => (await callRoute(full, browser[0] as CellRoute)) === '429 rate_limited')
  const served = declaring('rate_limited').filter((route) => serves(route, 'processful'))
  await expectOf(served, '429 rate_limited', (route) => callRoute(full, route))
  full.gateway.drain()
  await expectOf(CELL_ROUTES, '503 service_unavailable/draining', (route) => callRoute(full, route))
})

test('every route of the gateway is 429 while too many tokens wait for their check', async () => {
  await using full = await openBench({ signatures: createSignatures({ at_once: 0, waiting_per_address: 0, waiting: 0 }) })
  await expectOf(CELL_ROUTES, '429 rate_limited', (route) => callRoute(full, route))
})

test('a stream is 503 when the cell has no stream permit left', async () => {
  await using full = await openBench({ places: createCallPermits({ calls: 9, streams: 9, organization_streams: 9, all_streams: 0 }) })
  await expectOf(declaring('service_unavailable', 'too_many_streams'), '503 service_unavailable/too_many_streams', (route) =>
    callRoute(full, route),
  )
})
