import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { assertNothingIsLeft } from '../../../tests/engine/invariants.ts'
import type { Asked } from '../../../tests/engine/intentions.ts'
import { AT_ONCE_MS, createWorld, entryOf, type Process, type World } from '../../../tests/engine/world.ts'
import { Failure } from '../../lib/fail.ts'
import { armFailpoint } from '../../lib/failpoints.ts'
import { HostFailure } from '../host/hostd.ts'
import type { FakeOptions } from '../host/fake/host.ts'
import type { WorkspaceEntry } from './table.ts'

const IDLE = { running: 0, busy_until: null, last_ended_at: null, commands: [] }
const ON_DEMAND = { ask_activity: async () => IDLE, park_after: { freeze_after_seconds: 0, hibernate_after_seconds: 3600 } }

function roomFor(
  machines: number,
  more: Partial<NonNullable<FakeOptions['capacity']>> = {},
): { capacity: NonNullable<FakeOptions['capacity']> } {
  return { capacity: { cpu_millis: 8000, memory_mib: 512 * machines, disk_gib: 1000, ...more } }
}

function resting(world: World): void {
  for (const verb of ['start', 'restore'] as const)
    world.host.intercept(verb, 'after', ({ subject }) => world.host.guest(subject.id).rest())
}

async function opened(world: World): Promise<string> {
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  return workspace_id
}

async function atOnce(work: () => Promise<unknown>): Promise<void> {
  const began_ms = performance.now()
  await work()
  assert.ok(performance.now() - began_ms < AT_ONCE_MS)
}

const openedAtOnce = (world: World) => atOnce(() => opened(world))

/** An open succeeds just before the table has the machine. A workspace without a machine, or a busy one, cannot be frozen. */
async function freeze(world: World, process: Process, id: string): Promise<void> {
  await process.parking.freeze(await world.until(async () => withMachine(await entryOf(process, id))))
  assert.equal(process.table.get(id)?.machine?.state, 'frozen')
}

const withMachine = (entry: WorkspaceEntry) => entry.machine !== null && entry

async function frozen(world: World, process: Process, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let index = 0; index < count; index += 1) {
    const id = await opened(world)
    await freeze(world, process, id)
    ids.push(id)
    world.clock.advance(3)
  }
  return ids
}

const residencies = async (world: World, ids: string[]) => Promise.all(ids.map(async (id) => (await world.workspace(id)).residency))
const waits = (world: World, { operation_id }: Asked) =>
  world.until(async () => (await world.operation(operation_id)).state === 'capacity_pending')

function halt(world: World, verb: 'checkpoint' | 'stop', when: 'before' | 'after') {
  const reached = Promise.withResolvers<string>()
  const go_on = Promise.withResolvers<void>()
  const hook = world.host.intercept(verb, when, async ({ subject }) => {
    reached.resolve(subject.id)
    await go_on.promise
  })
  return { reached: reached.promise, go_on: go_on.resolve, [Symbol.dispose]: () => hook[Symbol.dispose]() }
}

test('an open on a full computer evicts the longest unused machine and no other', async () => {
  await using world = await createWorld(roomFor(3))
  const process = await world.startProcess(ON_DEMAND)
  const ids = await frozen(world, process, 3)
  await opened(world)
  assert.deepEqual(await residencies(world, ids), ['hibernated', 'resident', 'resident'])
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('an evicted machine that could not be stopped yet releases its capacity long before the next regular pass', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  await frozen(world, process, 1)
  let refusals = 2
  using _ = world.host.intercept('stop', 'before', () => {
    if ((refusals -= 1) >= 0) throw new HostFailure('internal', 'not yet', { retryable: true })
  })
  await openedAtOnce(world)
  assert.ok(refusals < 0)
})

test('a machine that could not be saved while hostd was away is evicted long before a minute is over', async () => {
  await using world = await createWorld(roomFor(1))
  resting(world)
  const process = await world.startProcess(ON_DEMAND)
  await frozen(world, process, 1)
  let failures = 2
  using _ = world.host.intercept('checkpoint', 'before', () => {
    if ((failures -= 1) >= 0) throw new HostFailure('unreachable', 'hostd restarts', { retryable: true })
  })
  await openedAtOnce(world)
})

test('the state after a wake that lost the database is repaired long before the next regular pass, even after a failed try', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  const [first = ''] = await frozen(world, process, 1)
  await process.parking.hibernate(await entryOf(process, first))
  let refusals = 1
  using _ = world.host.intercept('stop', 'before', () => {
    if ((refusals -= 1) >= 0) throw new HostFailure('internal', 'not yet', { retryable: true })
  })
  {
    using __ = armFailpoint('wake.W3', () => {
      throw Object.assign(new Error('Connection terminated unexpectedly'), { code: '57P01' })
    })
    await assert.rejects(process.parking.wake(await entryOf(process, first)))
  }
  assert.equal((await world.workspace(first)).residency, 'restoring')
  await openedAtOnce(world)
  await atOnce(() => world.until(async () => !(await world.host.inventory()).machines.some(({ subject }) => subject.id === first)))
})

test('a guest that could not be unpaused after an abandoned save runs long before the next regular pass', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  const [first = ''] = await frozen(world, process, 1)
  let refusals = 1
  using _ = world.host.intercept('unpause', 'before', () => {
    if ((refusals -= 1) >= 0) throw new HostFailure('internal', 'not yet', { retryable: true })
  })
  using save = halt(world, 'checkpoint', 'after')
  const saved = process.parking.hibernate(await entryOf(process, first))
  await save.reached
  using __ = process.table.holdAwake(first, 'call')
  save.go_on()
  await saved
  await atOnce(() => world.until(async () => (await world.host.inventory()).machines.every(({ state }) => state === 'running')))
})

test('a hibernated machine whose stop was interrupted counts until it has ended, and is ended soon', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  const [first = ''] = await frozen(world, process, 1)
  {
    using _ = armFailpoint('hibernate.H3', () => {
      throw new Error('cut short')
    })
    await assert.rejects(process.parking.hibernate(await entryOf(process, first)))
  }
  using _ = world.host.intercept('start', 'before', async () => assert.deepEqual((await world.host.inventory()).machines, []))
  await openedAtOnce(world)
})

test('a call on a hibernated workspace wakes it with its memory in place of the longest unused machine', async () => {
  await using world = await createWorld(roomFor(2))
  const process = await world.startProcess(ON_DEMAND)
  const [first = '', second = ''] = await frozen(world, process, 2)
  world.host.guest(first).memory.set('canary', 'alive')
  await opened(world)
  assert.deepEqual(await residencies(world, [first, second]), ['hibernated', 'resident'])
  world.clock.advance(3)
  using _ = process.table.holdAwake(first, 'call')
  await process.parking.wake(await entryOf(process, first))
  assert.deepEqual(
    [await residencies(world, [first, second]), world.host.guest(first).memory.get('canary')],
    [['resident', 'hibernated'], 'alive'],
  )
})

test('a reset of a hibernated workspace waits for capacity like any other operation, and gets it', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  const [sleeper = ''] = await frozen(world, process, 1)
  const other = await opened(world)
  await freeze(world, process, other)
  world.clock.advance(3)
  const { state } = await world.ended(await world.operate(sleeper, 'reset'))
  assert.deepEqual([state, await residencies(world, [sleeper, other])], ['succeeded', ['resident', 'hibernated']])
})

test('quiet machines that are not frozen are evicted too; machines that are busy, in use or run commands stay', async () => {
  await using world = await createWorld(roomFor(4))
  const running = new Set<string>()
  const process = await world.startProcess({
    ...ON_DEMAND,
    ask_activity: async ({ agent_key }) => ({ ...IDLE, running: running.has(agent_key) ? 1 : 0 }),
  })
  const [working, used, commanded, resting_one] = [await opened(world), await opened(world), await opened(world), await opened(world)]
  for (const id of [used, commanded, resting_one]) world.host.guest(id).rest()
  running.add((await entryOf(process, commanded)).machine?.agent_key ?? '')
  using _ = process.table.holdAwake(used, 'stream')
  await opened(world)
  assert.deepEqual(await residencies(world, [working, used, commanded, resting_one]), ['resident', 'resident', 'resident', 'hibernated'])
})

test('while all machines were just used requests wait, and none is evicted before a second without use', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  const [first = ''] = await frozen(world, process, 1)
  process.table.touch(first, 'tool_call')
  const touched_at = world.clock.now()
  const unused_ms: number[] = []
  using _ = world.host.intercept('checkpoint', 'before', () => void unused_ms.push(world.clock.now().getTime() - touched_at.getTime()))
  const open = await world.open()
  assert.equal((await world.ended(open.operation_id)).state, 'succeeded')
  assert.deepEqual(await residencies(world, [first]), ['hibernated'])
  assert.ok((unused_ms[0] ?? 0) >= 1000, String(unused_ms))
})

test('a victim that is called during its save stays, and another one is evicted', async () => {
  await using world = await createWorld(roomFor(2))
  const process = await world.startProcess(ON_DEMAND)
  const [first = '', second = ''] = await frozen(world, process, 2)
  using save = halt(world, 'checkpoint', 'after')
  const open = await world.open()
  assert.equal(await save.reached, first)
  using _ = process.table.holdAwake(first, 'call')
  const called = process.parking.wake(await entryOf(process, first))
  save.go_on()
  assert.equal((await world.ended(open.operation_id)).state, 'succeeded')
  await called
  assert.deepEqual(await residencies(world, [first, second]), ['resident', 'hibernated'])
})

test('an operation during the save of a victim wins, and the capacity goes to the waiting request afterwards', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  const [first = ''] = await frozen(world, process, 1)
  using save = halt(world, 'checkpoint', 'after')
  const open = await world.open()
  await save.reached
  const suspend = await world.operate(first, 'suspend')
  save.go_on()
  assert.equal((await world.ended(suspend)).state, 'succeeded')
  assert.equal((await world.ended(open.operation_id)).state, 'succeeded')
  assert.equal((await world.workspace(first)).observed_state, 'suspended')
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('of two requests that wait for one victim, the first gets its capacity and the other waits on', async () => {
  await using world = await createWorld(roomFor(2))
  resting(world) // the thawed machine must become idle again after its use
  const process = await world.startProcess(ON_DEMAND)
  const [first = '', second = ''] = await frozen(world, process, 2)
  using held = process.table.holdAwake(second, 'stream')
  const opens = [await world.open(), await world.open()]
  const [one, other] = opens
  assert.ok(one && other)
  assert.equal((await world.ended(one.operation_id)).state, 'succeeded')
  using _ = process.table.holdAwake(one.workspace_id, 'stream')
  await waits(world, other)
  assert.deepEqual(await residencies(world, [first, second]), ['hibernated', 'resident'])
  held[Symbol.dispose]()
  world.clock.advance(3)
  assert.equal((await world.ended(other.operation_id)).state, 'succeeded')
  assert.deepEqual(await residencies(world, [first, second, one.workspace_id]), ['hibernated', 'hibernated', 'resident'])
})

test('capacity released for a large request is not taken by smaller later requests', async () => {
  await using world = await createWorld(roomFor(4))
  const process = await world.startProcess(ON_DEMAND)
  const ids = await frozen(world, process, 4)
  using stop = halt(world, 'stop', 'before')
  const large = await world.open({ resources: { memory_mib: 1536 } })
  await stop.reached
  await waits(world, large)
  const small = await world.open()
  await waits(world, small)
  // Both starts run concurrently, so the large workspace must have its capacity when the small one starts.
  const then: string[] = []
  using _ = world.host.intercept('start', 'before', async ({ subject }) => {
    if (subject.id === small.workspace_id) then.push((await world.operation(large.operation_id)).state)
  })
  stop.go_on()
  for (const { operation_id } of [large, small]) assert.equal((await world.ended(operation_id)).state, 'succeeded')
  assert.equal(then.length, 1)
  assert.notEqual(then[0], 'capacity_pending')
  assert.equal((await residencies(world, ids)).filter((residency) => residency === 'hibernated').length, 4)
})

test('the capacity of a victim is not granted before its machine has ended, although its row says hibernated', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  const [first = ''] = await frozen(world, process, 1)
  const reached = Promise.withResolvers<void>()
  const go_on = Promise.withResolvers<void>()
  using _ = armFailpoint('hibernate.H3', () => {
    reached.resolve()
    return go_on.promise
  })
  let has_ended = false
  using __ = world.host.intercept('stop', 'after', () => void (has_ended = true))
  using ___ = world.host.intercept('start', 'before', () => assert.ok(has_ended))
  const open = await world.open()
  await reached.promise
  assert.deepEqual(await residencies(world, [first]), ['hibernated'])
  await process.engine.runner()?.pass()
  assert.equal((await world.operation(open.operation_id)).state, 'capacity_pending')
  go_on.resolve()
  assert.equal((await world.ended(open.operation_id)).state, 'succeeded')
  assert.equal(has_ended, true)
})

test('no machine is saved into the reserve of the pool: a call fails at once, and an open waits until there is space', async () => {
  const given = roomFor(1, { pool_free_bytes: 1e10 + 512 * 2 ** 20 })
  await using world = await createWorld(given)
  const process = await world.startProcess(ON_DEMAND)
  const [first = ''] = await frozen(world, process, 1)
  const open = await world.open()
  await waits(world, open)
  await world.until(async () => !process.room.isReachable({ memory_mib: 512 }))
  assert.equal(world.host.done.filter(({ verb }) => verb === 'checkpoint').length, 0)
  given.capacity.pool_free_bytes = 1e12
  await world.until(async () => {
    world.clock.advance(0.1) // a victim whose save failed is retried after a second of this clock
    return (await world.operation(open.operation_id)).state === 'succeeded'
  })
  assert.deepEqual(await residencies(world, [first]), ['hibernated'])
  // The pool gets space again while no operation waits. The evictor must still clear its record that the pool was full.
  await freeze(world, process, open.workspace_id)
  world.clock.advance(3)
  given.capacity.pool_free_bytes = 1e10 + 512 * 2 ** 20
  const canceled = await world.open()
  await world.until(async () => !process.room.isReachable({ memory_mib: 512 }))
  await world.ended(await world.operate(canceled.workspace_id, 'delete'))
  given.capacity.pool_free_bytes = 1e12
  await world.until(async () => process.room.isReachable({ memory_mib: 512 }))
})

test('where hibernation is off no machine is evicted, and a call gets host_capacity at once', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess({ ...ON_DEMAND, park_after: { freeze_after_seconds: 3600, hibernate_after_seconds: 0 } })
  const [first = ''] = await frozen(world, process, 1)
  await process.parking.hibernate(await entryOf(process, first))
  const [second = ''] = await frozen(world, process, 1)
  await assert.rejects(
    process.parking.wake(await entryOf(process, first)),
    (error) => error instanceof Failure && error.reason === 'host_capacity',
  )
  assert.deepEqual(await residencies(world, [first, second]), ['hibernated', 'resident'])
})

test('ten operations that wait when the cell is killed all run after its restart', async () => {
  await using world = await createWorld(roomFor(3))
  resting(world)
  const first = await world.startProcess(ON_DEMAND)
  await frozen(world, first, 3)
  const held = (await world.host.inventory()).machines.map(({ subject }) => first.table.holdAwake(subject.id, 'stream'))
  const opens: Asked[] = []
  for (let count = 0; count < 10; count += 1) opens.push(await world.open())
  for (const open of opens) await waits(world, open)
  await first.kill()
  assert.equal(held.length, 3)
  const second = await world.startProcess(ON_DEMAND)
  for (const { operation_id } of opens) assert.equal((await world.ended(operation_id)).state, 'succeeded')
  await world.until(async () => second.parking.inTransition().length === 0)
  await second.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a single open of another organization runs after the first of twenty opens', async () => {
  await using world = await createWorld(roomFor(1))
  resting(world)
  const many: Asked[] = []
  for (let count = 0; count < 20; count += 1) many.push(await world.open())
  const single = await world.open()
  await anotherOrganization(world, single)
  const began: string[] = []
  using _ = world.host.intercept('start', 'before', ({ subject }) => void began.push(subject.id))
  await world.startProcess(ON_DEMAND)
  assert.equal((await world.ended(single.operation_id)).state, 'succeeded')
  assert.deepEqual([began[0], began[1]], [many[0]?.workspace_id, single.workspace_id])
})

async function anotherOrganization({ db, ids }: World, { workspace_id, operation_id }: Asked): Promise<void> {
  const [organization_id, project_id] = [ids.next(), ids.next()]
  const changed = sql`jsonb_build_object('id', ${organization_id}::text, 'slug', 'other')`
  await sql`insert into organizations select (jsonb_populate_record(o, ${changed})).* from organizations o limit 1`.execute(db)
  const moved = sql`jsonb_build_object('id', ${project_id}::text, 'organization_id', ${organization_id}::text)`
  await sql`insert into projects select (jsonb_populate_record(p, ${moved})).* from projects p limit 1`.execute(db)
  const owner = { organization_id, project_id }
  await db.updateTable('workspaces').set(owner).where('id', '=', workspace_id).execute()
  await db.updateTable('operations').set(owner).where('id', '=', operation_id).execute()
}
