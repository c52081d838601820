import assert from 'node:assert/strict'
import { after, before, beforeEach, mock, test } from 'node:test'
import { createActivityLedger } from '../../service/cell/machines/activity.ts'
import { openBench, type Bench } from './support/gateway.ts'

let bench: Bench
before(async () => {
  bench = await openBench()
})
after(() => bench[Symbol.asyncDispose]())
beforeEach(async () => {
  bench.agent.script = null
  await row({
    idle_policy: null,
    busy_until: null,
    keepalive_until: null,
    suspend_requested_at: null,
    idle_failures: 0,
    idle_retry_at: null,
  })
})

const row = (columns: Record<string, unknown>) =>
  bench.database.superuser.updateTable('workspaces').set(columns).where('id', '=', bench.workspace_id).execute()
const later = (date: Date | string, seconds: number) => new Date(new Date(date).getTime() + seconds * 1000).toISOString()
const idle = async () => {
  const answer = await bench.call('GET', '/idle')
  assert.equal(answer.status, 200)
  return (await answer.json()) as Record<string, unknown>
}
const says = (activity: object) => {
  bench.agent.script = (request, response) => {
    assert.equal(request.url, '/activity')
    response.end(JSON.stringify(activity))
  }
}
const NOBODY = { session_id: null, route: null, operation_id: null }

test('the idle record of an idle workspace has its start, the time of its suspend, and the rule', async () => {
  const active_at = new Date(bench.clock.now().getTime() - 60_000)
  await row({ active_at, tool_call_at: active_at })
  const at = active_at.toISOString()
  assert.deepEqual(await idle(), {
    policy: 'adaptive',
    timeout_seconds: 300,
    basis: 'default',
    recent_activity: { active_at: at, tool_call_at: at, busy_until: null, keepalive_until: null },
    idle_since: at,
    awake: [],
    suspend_request: null,
    suspend_at: later(at, 300),
    suspend_by: 'policy',
    residency: { state: 'resident', reason: 'use', park_after_seconds: 5, park_after_by: 'cell', park_at: null },
    failed_suspends: 0,
  })
})

test('an earlier suspend request is named with its time, and a policy that backs off after failures says so', async () => {
  const active_at = bench.clock.now()
  const suspend_request = { requested_at: active_at.toISOString(), after_seconds: 30, not_before: later(active_at, 30) }
  await row({ active_at, tool_call_at: null, idle_policy: 'never', suspend_requested_at: active_at, suspend_after_seconds: 30 })
  await row({ suspend_not_before: new Date(suspend_request.not_before) })
  const asked = await idle()
  assert.deepEqual(
    [asked['timeout_seconds'], asked['basis'], asked['suspend_request'], asked['suspend_at'], asked['suspend_by']],
    [null, 'never', suspend_request, suspend_request.not_before, 'request'],
  )
  await row({ suspend_requested_at: null, idle_policy: 'fixed:60', idle_failures: 3, idle_retry_at: new Date(later(active_at, 500)) })
  const failed = await idle()
  assert.deepEqual([failed['suspend_at'], failed['suspend_by'], failed['failed_suspends']], [later(active_at, 500), 'policy', 3])
})

test('commands, a keepalive and an operation are named with their times, and idleness counts from the last of them', async () => {
  const now = bench.clock.now()
  const [started_at, busy_until] = [later(now, -100), later(now, 900)]
  says({ running_sessions: 1, busy_until, last_ended_at: null, commands: [{ session_id: 'build', started_at, busy_until }] })
  const keepalive_until = later(now, 600)
  await row({ active_at: now, idle_policy: 'fixed:60', keepalive_until: new Date(keepalive_until) })
  const seen = await idle()
  assert.deepEqual(seen['awake'], [
    { ...NOBODY, kind: 'command', since: started_at, until: busy_until, session_id: 'build' },
    { ...NOBODY, kind: 'keepalive', since: null, until: keepalive_until },
  ])
  assert.deepEqual([seen['idle_since'], seen['suspend_at'], seen['suspend_by']], [null, later(busy_until, 60), 'policy'])
})

test("a guest's report about its commands counts for an hour at most, and not at all when it is invalid", async () => {
  const now = bench.clock.now()
  await row({ active_at: now, idle_policy: 'fixed:60' })
  const command = { session_id: 'x', started_at: now.toISOString(), busy_until: '9999-01-01T00:00:00Z' }
  says({ busy_until: command.busy_until, commands: [command, { ...command, session_id: 'a\r\nb' }, { session_id: 'y' }, null, 7] })
  const [only, ...others] = (await idle())['awake'] as { session_id: string; until: string }[]
  assert.deepEqual([only?.session_id, others], ['x', []])
  assert.ok(Date.parse(only?.until ?? '') <= bench.clock.now().getTime() + 3600_000)
  for (const nonsense of [[], { commands: 'many' }, { commands: { length: 1e9 } }]) {
    says(nonsense)
    assert.deepEqual((await idle())['awake'], [])
  }
})

test('calls and streams in progress are named with their session, and count as activity until they end', async () => {
  const ledger = createActivityLedger(bench.clock)
  bench.table.uses = (id) => ledger.seen(id)
  await row({ active_at: new Date(0), idle_policy: 'fixed:60' })
  using _ = ledger.holdAwake(bench.workspace_id, 'stream', { route: 'exec.output', session_id: 'tail' })
  const since = ledger.seen(bench.workspace_id)?.active_at.toISOString()
  bench.clock.ahead_ms += 120_000
  const seen = await idle()
  assert.deepEqual(seen['awake'], [{ ...NOBODY, kind: 'stream', since, until: null, route: 'exec.output', session_id: 'tail' }])
  assert.equal(seen['idle_since'], null)
  const suspend_ms = Date.parse(String(seen['suspend_at'])) - bench.clock.now().getTime()
  assert.ok(suspend_ms > 55_000 && suspend_ms <= 60_000, String(suspend_ms))
})

async function ask(seconds: number): Promise<Date> {
  const suspend_requested_at = new Date(later(bench.clock.now(), -seconds))
  await row({ suspend_requested_at, suspend_after_seconds: 30, suspend_not_before: suspend_requested_at })
  bench.table.set(bench.workspace_id, { suspend_requested_at })
  return suspend_requested_at
}
const askedAt = async () => {
  const { suspend_requested_at } = await bench.database.superuser
    .selectFrom('workspaces')
    .select('suspend_requested_at')
    .where('id', '=', bench.workspace_id)
    .executeTakeFirstOrThrow()
  return suspend_requested_at
}

test('a tool call, also one that reads, cancels an earlier suspend request first; keepalive, hint and idle record do not', async () => {
  const asked_at = await ask(1)
  await bench.call('POST', '/keepalive', { json: { seconds: 0 } })
  await bench.call('POST', '/wake-hint')
  await idle()
  assert.deepEqual(await askedAt(), asked_at)
  let seen: Date | null | undefined
  bench.agent.script = async (_request, response) => {
    seen = await askedAt()
    response.writeHead(404).end('{"code":"not_found","message":"x"}')
  }
  assert.equal((await bench.call('GET', '/exec/s')).status, 404)
  assert.equal(seen, null)
})

test('a replaced suspend request and one that comes after the call stay', async () => {
  bench.agent.script = (_request, response) => void response.writeHead(404).end('{"code":"not_found","message":"x"}')
  const token = await bench.token()
  await ask(1)
  const again = new Date(later(bench.clock.now(), -0.5))
  await row({ suspend_requested_at: again })
  await bench.call('GET', '/exec/s', { token })
  assert.deepEqual(await askedAt(), again)
  const ahead = await ask(-60)
  await bench.call('GET', '/exec/s', { token })
  assert.deepEqual(await askedAt(), ahead)
})

test('a call without a suspend request writes nothing, and one whose request cannot be written is served', async () => {
  bench.agent.script = (_request, response) => void response.writeHead(404).end('{"code":"not_found","message":"x"}')
  const token = await bench.token()
  bench.table.set(bench.workspace_id, { suspend_requested_at: null })
  const writes = mock.method(bench.database.cell, 'updateTable', () => {
    throw new Error('The database is away')
  })
  try {
    await bench.call('GET', '/exec/s', { token })
    assert.equal(writes.mock.callCount(), 0)
    await ask(1)
    assert.equal((await bench.call('GET', '/exec/s', { token })).status, 404)
    assert.equal(writes.mock.callCount(), 1)
  } finally {
    writes.mock.restore()
  }
})
