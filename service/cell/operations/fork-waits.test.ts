import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertNothingIsLeft } from '../../../tests/engine/invariants.ts'
import { createWorld, entryOf, type Process, type World } from '../../../tests/engine/world.ts'
import { armFailpoint } from '../../lib/failpoints.ts'

// Forks that wait for capacity: decision 293.

const IDLE = { running: 0, busy_until: null, last_ended_at: null, commands: [] }
const ON_DEMAND = { ask_activity: async () => IDLE, park_after: { freeze_after_seconds: 0, hibernate_after_seconds: 3600 } }
const roomFor = (machines: number) => ({ capacity: { cpu_millis: 8000, memory_mib: 512 * machines, disk_gib: 1000 } })

async function source(world: World, memory_mib = 512): Promise<string> {
  using _ = world.host.intercept('start', 'after', ({ subject }) => world.host.guest(subject.id).rest())
  const { workspace_id, operation_id } = await world.open({ resources: { memory_mib } })
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  world.host.guest(workspace_id).memory.set('canary', 'then')
  world.clock.advance(3)
  return workspace_id
}

const waits = (world: World, operation_id: string) =>
  world.until(async () => (await world.operation(operation_id)).state === 'capacity_pending')

async function assertTidy(world: World, process: Process): Promise<void> {
  await world.until(async () => process.parking.inTransition().length === 0)
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
}

test('two forks on a computer that their idle sources fill both succeed: neither keeps its source from being evicted', async () => {
  await using world = await createWorld(roomFor(2))
  const process = await world.startProcess(ON_DEMAND)
  const sources = [await source(world), await source(world)]
  const forks = [await world.fork(sources[0] ?? ''), await world.fork(sources[1] ?? '')]
  for (const { operation_id } of forks) assert.equal((await world.ended(operation_id)).state, 'succeeded')
  for (const { workspace_id } of forks) assert.equal(world.host.guest(workspace_id).memory.get('canary'), 'then')
  await assertTidy(world, process)
})

test('a fork of a workspace that has more than half of the memory gets its capacity from its source', async () => {
  await using world = await createWorld(roomFor(2))
  const process = await world.startProcess(ON_DEMAND)
  const id = await source(world, 768)
  const { operation_id } = await world.fork(id, { resources: { memory_mib: 768 } })
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  assert.equal((await world.workspace(id)).residency, 'hibernated')
  await assertTidy(world, process)
})

test('a waiting fork already has its copy: its source is released, and later changes of the source are not in the fork', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess()
  const id = await source(world)
  const { workspace_id, operation_id } = await world.fork(id)
  await waits(world, operation_id)
  assert.equal((await entryOf(process, id)).hold, null)
  assert.equal((await world.operation(operation_id)).started_at, null)
  world.host.guest(id).memory.set('canary', 'since')
  assert.equal((await world.ended(await world.operate(id, 'suspend'))).state, 'succeeded')
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  assert.equal(world.host.guest(workspace_id).memory.get('canary'), 'then')
  assert.equal(world.host.done.filter(({ verb }) => verb === 'checkpoint').length, 2)
  await assertTidy(world, process)
})

test('capacity that is released while a fork captures ahead goes to that fork, not to a later operation', async () => {
  await using world = await createWorld(roomFor(2))
  const process = await world.startProcess(ON_DEMAND)
  const [id, other] = [await source(world), await source(world)]
  const reached = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  using _ = armFailpoint('fork.F3', () => {
    reached.resolve()
    return go.promise
  })
  const { workspace_id, operation_id } = await world.fork(id)
  await reached.promise
  const later = await world.open()
  await world.until(async () => (await world.workspace(other)).residency === 'hibernated' && process.parking.inTransition().length === 0)
  await process.engine.runner()?.pass()
  assert.equal((await world.operation(later.operation_id)).state, 'capacity_pending')
  go.resolve()
  for (const one of [operation_id, later.operation_id]) assert.equal((await world.ended(one)).state, 'succeeded')
  const began = world.host.done.filter(
    ({ verb, subject }) => (verb === 'start' || verb === 'restore') && subject.id !== id && subject.id !== other,
  )
  assert.deepEqual(
    began.map(({ subject }) => subject.id),
    [workspace_id, later.workspace_id],
  )
})

test('a fork whose cell was killed while it captured ahead starts nothing without capacity', async () => {
  await using world = await createWorld(roomFor(1))
  const first = await world.startProcess()
  const id = await source(world)
  const reached = Promise.withResolvers<void>()
  let hits = 0
  using _ = armFailpoint('fork.F4', () => {
    reached.resolve()
    return (hits += 1) === 1 ? new Promise<void>(() => undefined) : undefined
  })
  const { workspace_id, operation_id } = await world.fork(id)
  await reached.promise
  await first.kill()
  const process = await world.startProcess()
  await waits(world, operation_id)
  assert.deepEqual(
    world.host.done.filter(({ verb }) => verb === 'restore'),
    [],
  )
  await world.ended(await world.operate(id, 'delete'))
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  assert.equal(world.host.guest(workspace_id).memory.get('canary'), 'then')
  await assertTidy(world, process)
})

test('while a fork waits for capacity, the remains of a failed wake of its source are cleaned up', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess()
  const id = await source(world)
  const { operation_id } = await world.fork(id)
  await waits(world, operation_id)
  await world.db.updateTable('workspaces').set({ residency: 'restoring' }).where('id', '=', id).execute()
  await process.engine.watch()?.sweep()
  assert.notEqual((await world.workspace(id)).residency, 'restoring')
})

test('a fork whose wait is over is undone while other operations go on, even if its machine cannot be stopped', async () => {
  await using world = await createWorld(roomFor(1))
  await world.startProcess()
  const id = await source(world)
  const { workspace_id, operation_id } = await world.fork(id)
  await waits(world, operation_id)
  const asked = Promise.withResolvers<void>()
  const go_on = Promise.withResolvers<void>()
  using _ = world.host.intercept('stop', 'before', ({ subject }) => {
    if (subject.id !== workspace_id) return
    asked.resolve()
    return go_on.promise
  })
  world.clock.advance(900)
  const snapshot = await world.operate(id, 'snapshot')
  await asked.promise
  assert.equal((await world.ended(snapshot)).state, 'succeeded')
  go_on.resolve()
  const { state, error } = await world.ended(operation_id)
  assert.deepEqual([state, error?.code], ['failed', 'capacity_unavailable'])
})
