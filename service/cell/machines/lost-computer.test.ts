import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertNothingIsLeft } from '../../../tests/engine/invariants.ts'
import { createWorld } from '../../../tests/engine/world.ts'
import { createFakeHost } from '../host/fake/host.ts'

// Decision 312.

test("on a lost computer's replacement each workspace reports its loss and can be deleted; the lost one is emptied on return", async () => {
  await using world = await createWorld()
  const lost = await world.startProcess()
  const opened = [await world.open(), await world.open(), await world.open()]
  for (const { operation_id } of opened) assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const [running = '', suspended = '', deleting = ''] = opened.map(({ workspace_id }) => workspace_id)
  assert.equal((await world.ended(await world.operate(suspended, 'suspend'))).state, 'succeeded')
  await lost.kill()
  const unfinished = await world.operate(deleting, 'delete')

  const next = await world.startProcess({ host: createFakeHost() })
  await next.engine.watch()?.sweep()
  assert.equal((await world.ended(unfinished)).state, 'succeeded')
  await world.until(async () => (await world.workspace(running)).observed_state === 'failed')
  for (const operation of [await world.operate(suspended, 'resume'), await world.operate(running, 'open')]) {
    const { state, error } = await world.ended(operation)
    assert.deepEqual([state, error?.code, error?.details?.['reason']], ['failed', 'checkpoint_corrupt', 'not_found'])
  }
  for (const id of [running, suspended]) assert.equal((await world.ended(await world.operate(id, 'delete'))).state, 'succeeded')
  for (const id of [running, suspended, deleting]) assert.equal((await world.workspace(id)).observed_state, 'deleted')
  await next.close()

  const back = await world.startProcess()
  await back.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})
