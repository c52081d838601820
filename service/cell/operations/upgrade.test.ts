import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld } from '../../../tests/engine/world.ts'

test('a workspace resumes after its host got another engine, and the resume is refused if its own engine is not kept', async () => {
  await using world = await createWorld({ engine: 'first' })
  await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  const { ended, operate } = world
  const states = async (kind: string) => {
    const { state, error } = await ended(await operate(workspace_id, kind))
    return [state, error?.code ?? null, (await world.workspace(workspace_id)).observed_state]
  }
  const engine = async () => (await world.host.inventory()).machines[0]?.engine
  assert.deepEqual(await states('suspend'), ['succeeded', null, 'suspended'])
  world.host.upgrade('second', 'kept')
  assert.deepEqual([await states('resume'), await engine()], [['succeeded', null, 'running'], 'first'])
  assert.deepEqual(await states('suspend'), ['succeeded', null, 'suspended'])
  assert.equal((await world.db.selectFrom('checkpoints').select('engine').executeTakeFirst())?.engine, 'first')
  world.host.upgrade('third', 'lost')
  assert.deepEqual([await states('resume'), await engine()], [['succeeded', null, 'running'], 'first'])

  const other = await world.open()
  await ended(other.operation_id)
  await ended(await operate(other.workspace_id, 'suspend'))
  world.host.upgrade('fourth', 'lost')
  const { state, error } = await ended(await operate(other.workspace_id, 'resume'))
  assert.deepEqual(
    [state, error?.code, (await world.workspace(other.workspace_id)).observed_state],
    ['failed', 'checkpoint_incompatible', 'suspended'],
  )
})
