import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld, entryOf, type World } from '../../../tests/engine/world.ts'
import { armFailpoint, type FailpointName } from '../../lib/failpoints.ts'

const STARTUP = {
  start: [
    { name: 'one', argv: ['/bin/one'] },
    { name: 'two', argv: ['/bin/two'] },
  ],
  services: [{ name: 'web', argv: ['/bin/web'], ready: { argv: ['/bin/is-ready'] } }],
}

async function openStarted(world: World) {
  const settings = JSON.stringify({ env: {}, inputs: {}, defaults: {}, ceiling: {}, ...STARTUP })
  await world.db.updateTable('template_versions').set({ settings }).execute()
  const asked = await world.open()
  await world.db
    .updateTable('workspaces')
    .set({ startup: JSON.stringify({ state: 'pending' }) })
    .execute()
  return asked
}

const names = ({ guests }: World) => guests.started.map(({ session_id }) => session_id.split('.').slice(1, -1).join('.'))

for (const [point, nth] of [
  ['open.O8', 1],
  ['startup.U1', 1],
  ['startup.U2', 2],
  ['startup.U3', 1],
] as [FailpointName, number][]) {
  test(`a cell that is killed at ${point} is followed by one that goes on, and no step runs twice`, async () => {
    await using world = await createWorld()
    world.guests.behave = (name) => (name === 'web' ? 'runs' : { exit: 0 })
    const reached = Promise.withResolvers<void>()
    let hits = 0
    using _ = armFailpoint(point, async () => {
      hits += 1
      if (hits !== nth) return
      reached.resolve()
      await new Promise(() => undefined) // a killed process never continues
    })
    const asked = await openStarted(world)
    const first = await world.startProcess()
    await reached.promise
    await first.kill()
    await world.startProcess()
    const operation = await world.ended(asked.operation_id)
    const row = await world.workspace(asked.workspace_id)
    assert.deepEqual([operation.state, row.observed_state, row.startup], ['succeeded', 'running', { state: 'ready' }])
    assert.deepEqual(names(world), ['one', 'two', 'web', 'web.ready'])
  })
}

test('a draining cell does not wait for start-ups, and the next process continues them', async () => {
  await using world = await createWorld()
  let is_done = false
  world.guests.behave = (name) => (name === 'web' || (name === 'two' && !is_done) ? 'runs' : { exit: 0 })
  const asked = await openStarted(world)
  const first = await world.startProcess()
  await world.until(async () => names(world).includes('two'))
  const began_ms = performance.now()
  await first.close()
  assert.ok(performance.now() - began_ms < 4000)
  is_done = true
  await world.startProcess()
  assert.equal((await world.ended(asked.operation_id)).state, 'succeeded')
  assert.deepEqual(names(world), ['one', 'two', 'web', 'web.ready'])
})

test('start-ups hold no start permits: more machines start up at once than the limit of starts', async () => {
  await using world = await createWorld()
  let is_done = false
  world.guests.behave = (name) => (name === 'web' || (name === 'one' && !is_done) ? 'runs' : { exit: 0 })
  await openStarted(world)
  const many = await Promise.all(Array.from({ length: 11 }, () => world.open({ resources: { memory_mib: 64 } })))
  await world.db
    .updateTable('workspaces')
    .set({ startup: JSON.stringify({ state: 'pending' }) })
    .execute()
  await world.startProcess()
  await world.until(async () => names(world).filter((name) => name === 'one').length === 12)
  is_done = true
  for (const { operation_id } of many) assert.equal((await world.ended(operation_id)).state, 'succeeded')
})

test('a hibernated machine is woken for the retry of its steps, and keeps its epoch', async () => {
  await using world = await createWorld()
  world.guests.behave = (name) => (name === 'two' ? { exit: 5 } : name === 'web' ? 'runs' : { exit: 0 })
  const { workspace_id, operation_id } = await openStarted(world)
  const process = await world.startProcess()
  assert.equal((await world.ended(operation_id)).error?.code, 'startup_failed')
  await process.parking.hibernate(await entryOf(process, workspace_id))
  assert.equal((await world.workspace(workspace_id)).residency, 'hibernated')
  world.guests.behave = (name) => (name === 'web' ? 'runs' : { exit: 0 })
  const retry = await world.operate(workspace_id, 'open', { input: { startup_retry: true } })
  assert.equal((await world.ended(retry)).state, 'succeeded')
  const row = await world.workspace(workspace_id)
  assert.deepEqual([row.residency, row.ownership_epoch, row.startup], ['resident', 1, { state: 'ready' }])
  assert.deepEqual(names(world), ['one', 'two', 'two', 'web', 'web.ready'])
})
