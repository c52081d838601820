import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld, type Process, type World } from '../../../tests/engine/world.ts'
import pino from 'pino'
import { idleRule } from '../../core/workspaces/idle.ts'
import { EDGES, learnedSeconds, type IdleGaps } from '../../core/workspaces/idle-gaps.ts'
import { HostFailure } from '../host/hostd.ts'
import type { GuestActivity } from './activity-query.ts'
import { flushActivity } from './flush.ts'
import { idleClock, checkIdle, type IdleContext } from './idle-clock.ts'
import { noteGap } from '../../../tests/support/idle-gaps.ts'
import { patience } from '../../../tests/support/patience.ts'

async function running(world: World, options: Parameters<World['open']>[0] = {}): Promise<string> {
  const { workspace_id, operation_id } = await world.open(options)
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  return workspace_id
}

async function contextOf(world: World, process: Process, said: Partial<GuestActivity> = {}): Promise<IdleContext> {
  const { id: cell_id } = await world.db.selectFrom('cells').select('id').executeTakeFirstOrThrow()
  const { clock, ids } = world
  const ask_activity = async () => ({ running: 0, busy_until: null, last_ended_at: null, commands: [], ...said })
  const log = pino({ level: 'silent' })
  return { cell_id, db: world.database.cell, clock, ids, table: process.table, log, ask_activity, started_at: new Date(0) }
}

async function lookNow(world: World, process: Process, said: Partial<GuestActivity> = {}): Promise<void> {
  await checkIdle(await contextOf(world, process, said))
}

async function lastOperation(world: World, workspace_id: string) {
  return world.db
    .selectFrom('operations')
    .selectAll()
    .where('workspace_id', '=', workspace_id)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirstOrThrow()
}

test('a workspace is suspended when its policy says so, and not a second earlier', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const ids = {
    adaptive: await running(world),
    fixed: await running(world, { idle_policy: 'fixed:60' }),
    never: await running(world, { idle_policy: 'never' }),
  }
  const kinds = async () => Promise.all(Object.values(ids).map(async (id) => (await lastOperation(world, id)).kind))
  world.clock.advance(58)
  await lookNow(world, process)
  assert.deepEqual(await kinds(), ['open', 'open', 'open'])
  world.clock.advance(3)
  await lookNow(world, process)
  assert.deepEqual(await kinds(), ['open', 'suspend', 'open'])
  world.clock.advance(240)
  await lookNow(world, process)
  assert.deepEqual(await kinds(), ['suspend', 'suspend', 'open'])
  const operation = await world.ended((await lastOperation(world, ids.fixed)).id)
  assert.deepEqual([operation.state, operation.input], ['succeeded', { reason: 'idle_timeout' }])
  assert.deepEqual(await world.db.selectFrom('audit_events').selectAll().execute(), []) // the operation itself records the reason
})

test('calls, streams, keepalives and running commands keep it awake', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const workspace_id = await running(world, { idle_policy: 'fixed:60' })
  const kind = async () => (await lastOperation(world, workspace_id)).kind
  const stream = process.table.holdAwake(workspace_id, 'stream')
  world.clock.advance(100)
  await lookNow(world, process)
  assert.equal(await kind(), 'open')
  stream[Symbol.dispose]()
  world.clock.advance(59)
  await lookNow(world, process)
  assert.equal(await kind(), 'open')
  process.table.touch(workspace_id, 'tool_call')
  world.clock.advance(59)
  await lookNow(world, process)
  assert.equal(await kind(), 'open')
  world.clock.advance(2)
  await lookNow(world, process, { busy_until: new Date(world.clock.now().getTime() + 60_000) })
  assert.equal(await kind(), 'open')
  world.clock.advance(121)
  await lookNow(world, process)
  assert.equal(await kind(), 'suspend')
})

test('an idle session ends and its key is free', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const workspace_id = await running(world, { lifetime: 'session' })
  world.clock.advance(601)
  await lookNow(world, process)
  const row = await world.workspace(workspace_id)
  assert.deepEqual([row.desired_state, row.ended_reason, row.deleted_at !== null], ['deleted', 'idle_timeout', true])
  const { state, requested_by } = await world.ended((await lastOperation(world, workspace_id)).id)
  assert.deepEqual([state, requested_by], ['succeeded', { kind: 'service', id: null, name: 'cell' }])
  const key = await world.db
    .selectFrom('workspace_keys')
    .select('reusable')
    .where('workspace_id', '=', workspace_id)
    .executeTakeFirstOrThrow()
  assert.equal(key.reusable, true)
  const events = await world.db.selectFrom('audit_events').selectAll().where('subject_id', '=', workspace_id).execute()
  assert.deepEqual(
    events.map(({ actor_kind, actor_name, action, details }) => [actor_kind, actor_name, action, details]),
    [['service', 'cell', 'workspaces.delete', { reason: 'idle_timeout' }]],
  )
})

test('gaps in our own clock make nothing idle, neither a jump forward nor a standstill; the next timeout counts from then', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const ids = { session: await running(world, { lifetime: 'session' }), fixed: await running(world, { idle_policy: 'fixed:60' }) }
  const kinds = async () => Promise.all(Object.values(ids).map(async (id) => (await lastOperation(world, id)).kind))
  const tick = idleClock(await contextOf(world, process))
  await tick()
  world.clock.set(3600)
  await tick()
  assert.deepEqual(await kinds(), ['open', 'open'])
  world.clock.advance(3600)
  await tick()
  assert.deepEqual(await kinds(), ['open', 'open'])
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second += 5) {
      world.clock.advance(5)
      await tick()
    }
  }
  await pass(55)
  assert.deepEqual(await kinds(), ['open', 'open'])
  await pass(10)
  assert.deepEqual(await kinds(), ['open', 'suspend'])
  await pass(540)
  assert.deepEqual(await kinds(), ['delete', 'suspend'])
})

async function requestSuspend(world: World, workspace_id: string, after_seconds: number): Promise<Date> {
  const now = world.clock.now()
  await world.db
    .updateTable('workspaces')
    .set({
      suspend_requested_at: now,
      suspend_after_seconds: after_seconds,
      suspend_not_before: new Date(now.getTime() + after_seconds * 1000),
    })
    .where('id', '=', workspace_id)
    .execute()
  return now
}

test('a suspend request takes effect under the policy never, and its operation names the request', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const workspace_id = await running(world, { idle_policy: 'never' })
  const requested_at = await requestSuspend(world, workspace_id, 30)
  world.clock.advance(29)
  await lookNow(world, process)
  assert.equal((await lastOperation(world, workspace_id)).kind, 'open')
  world.clock.advance(1.1)
  await lookNow(world, process)
  const operation = await lastOperation(world, workspace_id)
  assert.deepEqual(
    [operation.kind, operation.input],
    ['suspend', { reason: 'requested_after_idle', requested_at: requested_at.toISOString(), after_seconds: 30 }],
  )
})

test('a tool call after the request cancels it, a port request does not', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const [called, visited] = [await running(world, { idle_policy: 'never' }), await running(world, { idle_policy: 'never' })]
  for (const id of [called, visited]) await requestSuspend(world, id, 30)
  world.clock.advance(5)
  process.table.touch(called, 'tool_call')
  process.table.touch(visited, 'other')
  world.clock.advance(36)
  await lookNow(world, process)
  assert.deepEqual([(await lastOperation(world, called)).kind, (await lastOperation(world, visited)).kind], ['open', 'suspend'])
  assert.equal((await world.workspace(called)).suspend_requested_at, null)
})

test('idleness counts from the end of the last command, whether the cell saw it run or not', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const [unseen, seen] = [await running(world, { idle_policy: 'fixed:60' }), await running(world, { idle_policy: 'fixed:60' })]
  const kind = async (id: string) => (await lastOperation(world, id)).kind
  world.clock.advance(61)
  // A command of `unseen` ended ten seconds ago, and no query has found this yet.
  const last_ended_at = new Date(world.clock.now().getTime() - 10_000)
  await lookNow(world, process, { last_ended_at })
  assert.deepEqual([await kind(unseen), (await world.workspace(unseen)).busy_until], ['open', last_ended_at])
  world.clock.advance(1)
  await lookNow(world, process, { busy_until: new Date(world.clock.now().getTime() + 3000_000) })
  world.clock.advance(48)
  await lookNow(world, process, { busy_until: new Date(world.clock.now().getTime() + 3000_000), last_ended_at })
  world.clock.advance(2)
  const ended_at = world.clock.now()
  await lookNow(world, process, { last_ended_at: ended_at })
  assert.deepEqual([await kind(seen), (await world.workspace(seen)).busy_until], ['open', ended_at])
  world.clock.advance(58)
  await lookNow(world, process, { last_ended_at: ended_at })
  assert.equal(await kind(seen), 'open')
  world.clock.advance(3)
  await lookNow(world, process, { last_ended_at: ended_at })
  assert.equal(await kind(seen), 'suspend')
})

test('a guest that always reports a command as just ended is suspended a day after the last call', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world, { idle_policy: 'fixed:7200' })
  const kind = async () => (await lastOperation(world, id)).kind
  for (let hours = 0; hours < 25; hours++) {
    assert.equal(await kind(), 'open', `after ${hours} hours`)
    world.clock.advance(3600)
    await lookNow(world, process, { last_ended_at: world.clock.now() })
  }
  world.clock.advance(3600)
  await lookNow(world, process, { last_ended_at: world.clock.now() })
  assert.equal(await kind(), 'suspend')
})

test('the trigger has the edges, the shortest gap and the decay of core: a gap on either side of every edge is written as there', async () => {
  await using world = await createWorld()
  const id = await world.newWorkspace()
  let active_ms = (await world.workspace(id)).active_at.getTime()
  let expected: IdleGaps | null = null
  for (const gap_ms of EDGES.flatMap((edge) => [edge * 999.9, edge * 1000.1].map(Math.round))) {
    active_ms += gap_ms
    expected = singles(noteGap(expected, gap_ms / 1000))
    await world.db
      .updateTable('workspaces')
      .set({ active_at: new Date(active_ms) })
      .where('id', '=', id)
      .execute()
    const { idle_gaps } = await world.workspace(id)
    assert.deepEqual(singles(idle_gaps), expected, `a gap of ${gap_ms} ms`)
  }
  assert.equal(expected?.length, EDGES.length)
})

/** Rounds to single precision, as the column does. */
const singles = (gaps: IdleGaps | null): IdleGaps | null => gaps?.map(Math.fround) ?? null

test("SQL and TypeScript learn the same timeout from a workspace's gaps, across suspends and restarts", async () => {
  await using world = await createWorld()
  let process = await world.startProcess()
  const id = await running(world)
  let expected: IdleGaps | null = null
  let active_at = (await world.workspace(id)).active_at
  const note = async () => {
    const row = await world.workspace(id)
    expected = noteGap(expected, (row.active_at.getTime() - active_at.getTime()) / 1000)
    active_at = row.active_at
    for (const [i, weight] of (expected ?? []).entries())
      assert.ok(Math.abs((row.idle_gaps?.[i] ?? Number.NaN) - weight) < 1e-5, `bucket ${i}`)
  }
  for (const seconds of [5, 9.5, 10.5, 13, 100, 290, 13_000, 14_500, 1e6]) {
    world.clock.advance(seconds)
    process.table.touch(id, 'tool_call')
    await flushActivity(world.database.cell, process.table)
    await note()
  }
  for (let night = 0; night < 3; night++) {
    await world.ended(await world.operate(id, 'suspend'))
    await process.kill()
    process = await world.startProcess()
    world.clock.advance(86_400)
    await world.ended(await world.operate(id, 'resume'))
    await note()
  }
  const { lifetime, idle_policy, idle_gaps } = await world.workspace(id)
  const rule = idleRule({ lifetime, idle_policy, idle_gaps, template_defaults: {} })
  assert.deepEqual(rule, { policy: 'adaptive', timeout_seconds: learnedSeconds(expected), basis: 'learned' })
})

test('time in which a command or a keepalive kept it awake is no gap', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world)
  const now_ms = world.clock.now().getTime()
  const kept = { busy_until: new Date(now_ms + 500_000), keepalive_until: new Date(now_ms + 300_000) }
  await world.db.updateTable('workspaces').set(kept).where('id', '=', id).execute()
  world.clock.advance(505)
  process.table.touch(id, 'other')
  await flushActivity(world.database.cell, process.table)
  assert.equal((await world.workspace(id)).idle_gaps, null)
  world.clock.advance(86_400)
  process.table.touch(id, 'other')
  await flushActivity(world.database.cell, process.table)
  assert.equal((await world.workspace(id)).idle_gaps?.[24], 1)
})

test('a workspace that cannot be saved runs on, and is retried ever more rarely', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world, { idle_policy: 'fixed:60' })
  const guest = world.host.guest(id)
  guest.memory.set('canary', 'in memory')
  const before = await world.workspace(id)
  const suspends = async () =>
    world.db.selectFrom('operations').selectAll().where('workspace_id', '=', id).where('kind', '=', 'suspend').orderBy('id').execute()
  {
    using _ = world.host.intercept('checkpoint', 'before', () => {
      throw new HostFailure('checkpoint_failed', 'a deleted file is open', { retryable: false })
    })
    for (let second = 0; second < 1500; second += 20) {
      world.clock.advance(20)
      await lookNow(world, process)
      const last = (await suspends()).at(-1)
      if (last) assert.equal((await world.ended(last.id)).state, 'failed')
    }
  }
  const failed = await suspends()
  const waits = failed
    .slice(1)
    .map((one, i) => Math.round((one.created_at.getTime() - (failed[i]?.completed_at?.getTime() ?? 0)) / 20_000) * 20)
  assert.deepEqual(waits, [60, 120, 240, 480])
  const row = await world.workspace(id)
  assert.deepEqual([row.observed_state, row.desired_state, row.ownership_epoch], ['running', 'running', before.ownership_epoch])
  assert.deepEqual([row.active_at, row.idle_failures], [before.active_at, 5])
  assert.deepEqual([world.host.guest(id) === guest, guest.memory.get('canary')], [true, 'in memory'])
  world.clock.advance(960)
  await lookNow(world, process)
  assert.equal((await world.ended((await lastOperation(world, id)).id)).state, 'succeeded')
  const { observed_state, idle_failures, idle_retry_at } = await world.workspace(id)
  assert.deepEqual([observed_state, idle_failures, idle_retry_at], ['suspended', 0, null])
})

test('a guest that answers slowly does not delay the checks of others', { timeout: patience(20_000) }, async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const all = [await running(world, { idle_policy: 'fixed:60' }), await running(world, { idle_policy: 'fixed:60' })]
  world.clock.advance(61)
  const context = await contextOf(world, process)
  const everybody = Promise.withResolvers<void>()
  let asked = 0
  const ask_activity: IdleContext['ask_activity'] = async (machine) => {
    asked += 1
    if (asked === all.length) everybody.resolve()
    await everybody.promise // no guest answers before all guests were asked
    return context.ask_activity(machine)
  }
  await checkIdle({ ...context, ask_activity })
  assert.deepEqual(await Promise.all(all.map(async (id) => (await lastOperation(world, id)).kind)), ['suspend', 'suspend'])
})
