import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld, type Process, type World } from '../../../tests/engine/world.ts'
import pino from 'pino'
import { look } from './idle-clock.ts'

async function running(world: World, options: Parameters<World['open']>[0] = {}): Promise<string> {
  const { workspace_id, operation_id } = await world.open(options)
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  return workspace_id
}

/** One look of the idle clock at this moment. */
async function lookNow(world: World, process: Process, busy_until: Date | null = null): Promise<void> {
  const { id: cell_id } = await world.db.selectFrom('cells').select('id').executeTakeFirstOrThrow()
  const { clock, ids } = world
  const context = { cell_id, db: world.database.cell, clock, ids, table: process.table, log: pino({ level: 'silent' }) }
  await look({ ...context, ask_activity: async () => busy_until, started_at: new Date(0) })
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
  await lookNow(world, process, new Date(world.clock.now().getTime() + 60_000))
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
  assert.equal((await world.ended((await lastOperation(world, workspace_id)).id)).state, 'succeeded')
  const key = await world.db
    .selectFrom('workspace_keys')
    .select('reusable')
    .where('workspace_id', '=', workspace_id)
    .executeTakeFirstOrThrow()
  assert.equal(key.reusable, true)
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

test('a suspend request takes effect under the policy never, and says where it comes from', async () => {
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
