import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { createWorld, type World } from '../../../tests/engine/world.ts'
import { createRoom, type Want } from './room.ts'

const CAPACITY = { cpu_millis: 8000, memory_mib: 4096, disk_gib: 10, headroom_mib: 0, pool_bytes: 0, pool_free_bytes: 0, reserve_bytes: 0 }

function roomOf(world: World, evictable_mib = 0) {
  const room = createRoom({ db: world.db, cell_id: '00000000-0000-4000-8000-000000000000' })
  room.describe(CAPACITY, [])
  let asked = 0
  room.madeBy({ wanted: () => (asked += 1), evictable_mib: () => evictable_mib })
  return { room, asked: () => asked }
}

const want = (id: string, memory_mib: number, more: Partial<Want> = {}): Want => ({
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

test('decisions are made one after the other: two that fit alone do not both fit', async () => {
  await using world = await createWorld()
  const { room, asked } = roomOf(world)
  assert.deepEqual(await Promise.all([kind(room.decide(want('a', 3000), yes)), kind(room.decide(want('b', 3000), yes))]), ['given', 'wait'])
  assert.equal(asked(), 1)
})

test('smaller ones that come later do not take what the first of the list waits for', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world, 3000)
  assert.equal(await kind(room.decide(want('a', 3000), yes)), 'given')
  assert.equal(await kind(room.decide(want('large', 3000, { since: new Date(1) }), yes)), 'wait')
  assert.equal(await kind(room.decide(want('small', 512, { since: new Date(2) }), yes)), 'wait')
  room.withdraw('large')
  assert.equal(await kind(room.decide(want('small', 512, { since: new Date(2) }), yes)), 'given')
})

test('what was given back unseen is the first one’s: a smaller one does not have it because less seems to be in reach', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world)
  assert.equal(await kind(room.decide(want('a', 2000), yes)), 'given') // and in no row: a look finds it gone
  assert.equal(await kind(room.decide(want('large', 3000, { since: new Date(1) }), yes)), 'wait')
  room.freed()
  assert.equal(await kind(room.decide(want('small', 1200, { since: new Date(2) }), yes)), 'wait')
  assert.equal(await kind(room.decide(want('large', 3000, { since: new Date(1) }), yes)), 'given')
})

test('nothing is set aside for memory that nobody can make, nor for a disk that does not fit', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world, 0)
  assert.equal(await kind(room.decide(want('a', 3000), yes)), 'given')
  assert.equal(await kind(room.decide(want('large', 3000, { since: new Date(1) }), yes)), 'wait')
  assert.equal(await kind(room.decide(want('wide', 512, { disk_gib: 11, since: new Date(1) }), yes)), 'wait')
  assert.equal(await kind(room.decide(want('small', 512, { since: new Date(2) }), yes)), 'given')
})

test('a call has the room that there is, waits where some can be made, and is told at once where none can', async () => {
  await using world = await createWorld()
  const call = (memory_mib: number) => want('call', memory_mib, { is_call: true })
  assert.deepEqual(await roomOf(world).room.take(call(4096), yes, 60_000), { value: true })
  assert.equal(await roomOf(world).room.take(call(4097), yes, 60_000), null)
  const { room, asked } = roomOf(world, 4096)
  assert.equal(await room.take(call(4097), yes, 50), null)
  assert.deepEqual([asked() > 0, room.waiting()], [true, []])
})

test('what could not be reserved has taken nothing, and waits no more', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world)
  await assert.rejects(
    room.decide(want('a', 4096), () => Promise.reject(new Error('away'))),
    /away/,
  )
  assert.deepEqual(room.waiting(), [])
  assert.equal(await kind(room.decide(want('b', 4096), yes)), 'given')
})

test('what must leave is what those who wait lack together, as far as it can be had', async () => {
  await using world = await createWorld()
  const { room } = roomOf(world, 8192)
  for (const id of ['a', 'b', 'c']) await room.decide(want(id, 3000, { since: new Date(id.charCodeAt(0)) }), () => Promise.resolve(null))
  assert.equal(await room.lacking_mib(8192), 0)
  const listed = [want('large', 5000), want('small', 1000, { since: new Date(1) })]
  room.expect(listed, 8)
  assert.equal(await room.lacking_mib(2000), 5000 + 1000 - 4096)
  assert.equal(await room.lacking_mib(500), 0)
})

test('what begins to leave while the book is read is counted, although its row says by then that it is gone', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  const { cell_id, grant_memory_mib: memory_mib } = await world.workspace(workspace_id)
  assert.ok(cell_id !== null && memory_mib !== null)
  const room = createRoom({ db: process.db, cell_id })
  room.describe({ ...CAPACITY, memory_mib }, [])
  room.madeBy({ wanted: () => undefined, evictable_mib: () => 0 })
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
