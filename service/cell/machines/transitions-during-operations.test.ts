import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld, entryOf, type Process, type World } from '../../../tests/engine/world.ts'
import { Failure } from '../../lib/fail.ts'

const CANARY = 'in memory'

async function running(world: World, process: Process): Promise<string> {
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  await world.until(async () => (await process.table.fresh(workspace_id))?.machine ?? undefined)
  world.host.guest(workspace_id).memory.set('canary', CANARY)
  return workspace_id
}

const hibernate = async (process: Process, id: string) => process.parking.hibernate(await entryOf(process, id))

function held(world: World, verb: 'restore' | 'cloneCheckpoint', when: 'before' | 'after') {
  const [asked, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const interception = world.host.intercept(verb, when, async () => {
    asked.resolve()
    await go.promise
  })
  return { asked: asked.promise, letGo: () => go.resolve(), [Symbol.dispose]: () => interception[Symbol.dispose]() }
}

test('a wake of another process that an operation has overtaken commits nothing, and the guest loses nothing', async () => {
  await using world = await createWorld()
  const owner = await world.startProcess()
  const id = await running(world, owner)
  await hibernate(owner, id)
  const other = await world.startProcess({ wait: false })
  const restoring = held(world, 'restore', 'after')
  const woken = assert.rejects(other.parking.wake(await entryOf(other, id)), Failure)
  await restoring.asked
  using cloning = held(world, 'cloneCheckpoint', 'before')
  const operation_id = await world.operate(id, 'snapshot')
  await cloning.asked
  restoring.letGo()
  await woken
  restoring[Symbol.dispose]()
  cloning.letGo()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  await owner.engine.watch()?.sweep()
  await owner.parking.wake(await entryOf(owner, id))
  assert.equal(world.host.guest(id).memory.get('canary'), CANARY)
})

test('a hibernated workspace without the row of its checkpoint is not suspended', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world, process)
  await hibernate(process, id)
  await world.db.deleteFrom('checkpoints').where('workspace_id', '=', id).execute()
  assert.equal((await world.ended(await world.operate(id, 'suspend'))).state, 'failed')
  assert.equal((await world.workspace(id)).observed_state, 'running')
})

test('eight hibernated workspaces are woken at once, and the others in order', async () => {
  await using world = await createWorld({ capacity: { cpu_millis: 100_000, memory_mib: 100_000, disk_gib: 1000 } })
  const process = await world.startProcess()
  const ids = await Promise.all(Array.from({ length: 12 }, () => running(world, process)))
  for (const id of ids) await hibernate(process, id)
  const go = Promise.withResolvers<void>()
  let restores = 0
  using _ = world.host.intercept('restore', 'before', () => {
    restores += 1
    return go.promise
  })
  const entries = await Promise.all(ids.map((id) => entryOf(process, id)))
  const woken = Promise.all(entries.map((entry) => process.parking.wake(entry)))
  await world.until(() => Promise.resolve(restores >= 8))
  await world.workspace(ids[0] ?? '') // gives the other wakes time to exceed the limit, if they could
  await world.workspace(ids[0] ?? '')
  assert.equal(restores, 8)
  go.resolve()
  await woken
  for (const id of ids) assert.equal(world.host.guest(id).memory.get('canary'), CANARY)
})

test('a closing cell parks no more machines', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  await using world = await createWorld()
  const process = await world.startProcess({ park_after: { freeze_after_seconds: 1000, hibernate_after_seconds: 0 } })
  const id = await running(world, process)
  const looks = t.mock.method(process.table, 'known')
  t.mock.timers.tick(1000)
  assert.notEqual(looks.mock.callCount(), 0)
  using cloning = held(world, 'cloneCheckpoint', 'before')
  await hibernate(process, id)
  await world.operate(id, 'snapshot')
  await cloning.asked
  const closed = process.engine.close(60_000)
  looks.mock.resetCalls()
  t.mock.timers.tick(5000)
  assert.equal(looks.mock.callCount(), 0)
  cloning.letGo()
  await closed
})

test('a cell reports that it lives between two reconcile passes', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  await using world = await createWorld()
  await world.startProcess()
  const seen = async () => (await world.db.selectFrom('cells').select('seen_at').executeTakeFirstOrThrow()).seen_at
  const before = await seen()
  world.clock.advance(20)
  t.mock.timers.tick(20_000)
  await world.until(async () => (await seen())?.getTime() !== before?.getTime())
})
