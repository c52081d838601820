import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { createWorld, type World } from '../../../tests/engine/world.ts'
import { grantBuildMachine } from '../operations/builds/machine-store.ts'
import { buildSubject, workspaceSubject } from '../host/subject.ts'
import { createCapacityAllocator, type CapacityRequest } from './allocator.ts'

const CAPACITY = { cpu_millis: 8000, memory_mib: 4096, disk_gib: 10, headroom_mib: 0, pool_bytes: 0, pool_free_bytes: 0, reserve_bytes: 0 }

function roomOf(world: World, evictable_mib = 0) {
  const room = createCapacityAllocator({ db: world.db, cell_id: '00000000-0000-4000-8000-000000000000' })
  room.describe(CAPACITY, [])
  let asked = 0
  room.setEvictionSource({ wanted: () => (asked += 1), evictable_mib: () => evictable_mib })
  return { room, asked: () => asked }
}

const want = (id: string, memory_mib: number, more: Partial<CapacityRequest> = {}): CapacityRequest => ({
  id,
  organization_id: 'o',
  memory_mib,
  disk_gib: 0,
  since: new Date(0),
  is_call: false,
  ...more,
})
const yes = () => Promise.resolve(true)
const kind = async (decision: Promise<{ kind: string }>) => (await decision).kind

test('decisions are serial: of two requests that each fit alone, one waits', async () => {
  await using world = await createWorld()
  const { room, asked } = roomOf(world)
  assert.deepEqual(await Promise.all([kind(room.decide(want('a', 3000), yes)), kind(room.decide(want('b', 3000), yes))]), ['given', 'wait'])
  assert.equal(asked(), 1)
})

test('smaller later requests do not take the capacity that the first queued request waits for', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world, 3000)
  assert.equal(await kind(room.decide(want('a', 3000), yes)), 'given')
  assert.equal(await kind(room.decide(want('large', 3000, { since: new Date(1) }), yes)), 'wait')
  assert.equal(await kind(room.decide(want('small', 512, { since: new Date(2) }), yes)), 'wait')
  room.withdraw('large')
  assert.equal(await kind(room.decide(want('small', 512, { since: new Date(2) }), yes)), 'given')
})

test('a stale total reserves for the head of the queue: a smaller later request does not get its capacity', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world)
  assert.equal(await kind(room.decide(want('a', 2000), yes)), 'given') // no row names the machine: the next read counts its capacity as released
  assert.equal(await kind(room.decide(want('large', 3000, { since: new Date(1) }), yes)), 'wait')
  room.released()
  assert.equal(await kind(room.decide(want('small', 1200, { since: new Date(2) }), yes)), 'wait')
  assert.equal(await kind(room.decide(want('large', 3000, { since: new Date(1) }), yes)), 'given')
})

test('nothing is reserved for a request whose memory cannot be evicted or whose disk does not fit', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world, 0)
  assert.equal(await kind(room.decide(want('a', 3000), yes)), 'given')
  assert.equal(await kind(room.decide(want('large', 3000, { since: new Date(1) }), yes)), 'wait')
  assert.equal(await kind(room.decide(want('wide', 512, { disk_gib: 11, since: new Date(1) }), yes)), 'wait')
  assert.equal(await kind(room.decide(want('small', 512, { since: new Date(2) }), yes)), 'given')
})

test('a call gets free capacity, waits if eviction can help, and fails at once if it cannot', async () => {
  await using world = await createWorld()
  const call = (memory_mib: number) => want('call', memory_mib, { is_call: true })
  assert.deepEqual(await roomOf(world).room.acquire(call(4096), yes, 60_000), { value: true })
  assert.equal(await roomOf(world).room.acquire(call(4097), yes, 60_000), null)
  const { room, asked } = roomOf(world, 4096)
  assert.equal(await room.acquire(call(4097), yes, 50), null)
  assert.deepEqual([asked() > 0, room.waiting()], [true, []])
})

test('a failed reservation takes no capacity and leaves the queue', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world)
  await assert.rejects(
    room.decide(want('a', 4096), () => Promise.reject(new Error('away'))),
    /away/,
  )
  assert.deepEqual(room.waiting(), [])
  assert.equal(await kind(room.decide(want('b', 4096), yes)), 'given')
})

test('the memory to evict is what the satisfiable queued requests lack together', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world, 8192)
  for (const id of ['a', 'b', 'c']) await room.decide(want(id, 3000, { since: new Date(id.charCodeAt(0)) }), () => Promise.resolve(null))
  assert.equal(await room.lacking_mib(8192), 0)
  const listed = [want('large', 5000), want('small', 1000, { since: new Date(1) })]
  room.setQueue(listed, 8)
  assert.equal(await room.lacking_mib(2000), 5000 + 1000 - 4096)
  assert.equal(await room.lacking_mib(500), 0)
})

test('the disk to release is what the requests lack that disk can help', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world, 512)
  const unhelped = want('too large', 9000, { disk_gib: 2 })
  room.setQueue([unhelped, want('a', 100, { disk_gib: 8, since: new Date(1) }), want('b', 100, { disk_gib: 8, since: new Date(2) })], 8)
  assert.deepEqual([await room.lacking_gib(6), await room.lacking_gib(5), await room.lacking_gib(0)], [6, 0, 0])
})

test('a machine that could not be stopped and drains again after a wake is released when a pass no longer finds it', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world)
  const once = room.leaving('w', 512)
  once.markPendingExit(7)
  once[Symbol.dispose]()
  const again = room.leaving('w', 512)
  room.describe(CAPACITY, [])
  let told = 0
  room.onReleased(() => (told += 1))
  again[Symbol.dispose]()
  assert.equal(told, 1)
  room.setQueue([want('a', 5000)], 8)
  assert.equal(await room.lacking_mib(8192), 5000 - 4096)
})

test('operations are notified when a call gives up, is no longer needed or fails', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world, 3000)
  let told = 0
  room.onReleased(() => (told += 1))
  const call = (memory_mib: number) => want('call', memory_mib, { is_call: true })
  const gives_up = new AbortController()
  const waits = room.acquire(call(5000), yes, 60_000, { signal: gives_up.signal })
  assert.equal(await kind(room.decide(want('operation', 1000, { since: new Date(2) }), yes)), 'wait')
  gives_up.abort(new Error('given up'))
  await assert.rejects(waits, /given up/)
  assert.equal(told, 1)
  assert.deepEqual(await room.acquire(call(512), () => Promise.resolve(null), 0), { value: null })
  assert.equal(told, 2)
  await assert.rejects(
    room.acquire(call(512), () => Promise.reject(new Error('away')), 0),
    /away/,
  )
  assert.equal(told, 3)
})

test('a waiting build stays queued when the runner sets its queue, and ends by its signal', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world) // no machine can be evicted
  const canceled = new AbortController()
  const build = room.acquire(want('build', 5000), yes, 60_000, { patient: true, signal: canceled.signal })
  await world.until(async () => room.waiting().length > 0)
  room.setQueue([want('small', 512, { since: new Date(2) })], 8)
  assert.deepEqual(
    room.waiting().map(({ id }) => id),
    ['build', 'small'],
  )
  canceled.abort(new Error('canceled'))
  await assert.rejects(build, /canceled/)
  assert.deepEqual(
    room.waiting().map(({ id }) => id),
    ['small'],
  )
})

test('a build that resumes after a restart gets the memory and disk that its row reserves', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id, operation_id } = await world.open({ resources: { disk_gib: 0 } })
  await world.ended(operation_id)
  const { organization_id, project_id, cell_id } = await world.workspace(workspace_id)
  assert.ok(cell_id)
  const build_id = world.ids.next()
  const grants = { cpu_millis: 1000, memory_mib: 3000, disk_gib: 6 }
  await grantBuildMachine(world.db, { build_id, organization_id, project_id, cell_id, fence: 1, grants })
  const room = createCapacityAllocator({ db: process.db, cell_id })
  room.describe(CAPACITY, [])
  const build = want('build', 3000, { disk_gib: 6 })
  assert.equal(await room.acquire(build, yes, 0), null)
  assert.deepEqual(await room.acquire({ ...build, own: buildSubject(build_id) }, yes, 0), { value: true })
})

test("after an unneeded wake, the workspace's machine still counts for other requests", async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  const { cell_id, grant_memory_mib: memory_mib } = await world.workspace(workspace_id)
  assert.ok(cell_id !== null && memory_mib !== null)
  const room = createCapacityAllocator({ db: process.db, cell_id })
  room.describe({ ...CAPACITY, memory_mib }, [])
  const wake = want('wake', memory_mib, { is_call: true, own: workspaceSubject(workspace_id) })
  assert.deepEqual(await room.acquire(wake, () => Promise.resolve(null), 0), { value: null })
  assert.equal(await kind(room.decide(want('other', memory_mib), yes)), 'wait')
  room.withdraw('other')
  assert.equal(await room.acquire({ ...wake, memory_mib: 2 * memory_mib }, yes, 0), null)
  assert.equal(await kind(room.decide(want('other', memory_mib), yes)), 'wait')
})

test('a machine that begins to drain during the read is counted, although its row already says hibernated', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  const { cell_id, grant_memory_mib: memory_mib } = await world.workspace(workspace_id)
  assert.ok(cell_id !== null && memory_mib !== null)
  const room = createCapacityAllocator({ db: process.db, cell_id })
  room.describe({ ...CAPACITY, memory_mib }, [])
  room.setEvictionSource({ wanted: () => undefined, evictable_mib: () => 0 })
  const waits = sql<{ pid: number; granted: boolean }>`pg_locks`.as('l')
  const { decision, leaving } = await world.db.transaction().execute(async (tx) => {
    await sql`lock table machines in access exclusive mode`.execute(tx)
    const decision = room.decide(want('other', memory_mib), yes)
    await world.until(async () => (await world.db.selectFrom(waits).select('l.pid').where('l.granted', '=', false).execute()).length > 0)
    const leaving = room.leaving(workspace_id, memory_mib)
    await tx.updateTable('machines').set({ residency: 'hibernated' }).where('id', '=', workspace_id).execute()
    return { decision, leaving }
  })
  assert.equal(await kind(decision), 'wait')
  leaving[Symbol.dispose]()
  assert.equal(await kind(room.decide(want('other', memory_mib), yes)), 'given')
})

test('while an operation waits, an incomplete reconcile pass is requested again, also one from before the wait', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world)
  let doubts = 0
  room.onReconcileRequested(() => (doubts += 1))
  room.noteReconciled(false)
  assert.equal(doubts, 0)
  assert.equal(await kind(room.decide(want('a', 5000), yes)), 'wait')
  assert.equal(doubts, 1)
  room.noteReconciled(false)
  assert.equal(doubts, 2)
  room.noteReconciled(true)
  assert.equal(await kind(room.decide(want('a', 5000), yes)), 'wait')
  assert.equal(doubts, 2)
})

const LEAVES = '00000000-0000-4000-8000-000000000001'

test('a machine that drains for long is not waited for: others are evicted, and it counts until it has ended', async () => {
  await using world = await createWorld()
  let now_ms = 0
  const room = createCapacityAllocator({ db: world.db, cell_id: '00000000-0000-4000-8000-000000000000', now_ms: () => now_ms })
  room.describe({ ...CAPACITY, memory_mib: 4096 }, [])
  using leaving = room.leaving(LEAVES, 4096)
  room.setQueue([want('a', 4096 + 512)], 8)
  assert.equal(await room.lacking_mib(8192), 0)
  now_ms += 30_000
  assert.equal(await room.lacking_mib(8192), 512)
  leaving.markPendingExit(1)
  assert.equal(await room.lacking_mib(8192), 512)
})

test('lasting host refusals demand evictions, less what drains already, and are forgotten when they stop', async () => {
  await using world = await createWorld()
  let now_ms = 0
  const room = createCapacityAllocator({ db: world.db, cell_id: '00000000-0000-4000-8000-000000000000', now_ms: () => now_ms })
  room.describe(CAPACITY, [])
  const refusedFor = (ms: number) => {
    for (const until_ms = now_ms + ms; now_ms < until_ms; now_ms += 500) room.refused('a', 1024)
  }
  refusedFor(1000)
  assert.deepEqual([room.isRefused(), await room.lacking_mib(8192)], [false, 0]) // a reconcile pass may still help
  refusedFor(4000)
  assert.deepEqual([room.isRefused(), await room.lacking_mib(8192)], [true, 1024])
  const leaving = room.leaving(LEAVES, 1000)
  assert.equal(await room.lacking_mib(8192), 24)
  leaving[Symbol.dispose]()
  assert.equal(await room.lacking_mib(8192), 24)
  now_ms += 6000
  assert.deepEqual([room.isRefused(), await room.lacking_mib(8192)], [false, 0])
})

test('a machine that could not be stopped and that a reconcile pass ends is released at once', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world)
  const leaving = room.leaving('w', 512)
  leaving.markPendingExit(7)
  leaving[Symbol.dispose]()
  let told = 0
  room.onReleased(() => (told += 1))
  room.ended('w', 6)
  assert.equal(told, 0)
  room.ended('w', 7)
  assert.equal(told, 1)
})
