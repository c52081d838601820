import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld } from '../../../tests/engine/world.ts'

test('a layer snapshot captures the disk of a running workspace, which runs on, and is deleted with it', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  const { state, result } = await world.ended(await world.operate(workspace_id, 'layer_snapshot', { input: { label: 'tools installed' } }))
  const row = await world.db.selectFrom('checkpoints').selectAll().where('workspace_id', '=', workspace_id).executeTakeFirstOrThrow()
  assert.deepEqual(
    [state, result, row.kind, row.label, row.engine, row.expires_at],
    ['succeeded', { checkpoint_id: row.id }, 'layer', 'tools installed', '', null],
  )
  assert.equal((await world.workspace(workspace_id)).observed_state, 'running')
  // A suspend must not delete a checkpoint that a caller wanted to retain.
  await world.ended(await world.operate(workspace_id, 'suspend'))
  await process.engine.watch()?.sweep()
  const kept = async () => (await world.host.inventory()).files.flatMap(({ checkpoints }) => checkpoints)
  assert.equal((await kept()).filter(({ disk_only }) => disk_only).length, 1)
  await world.ended(await world.operate(workspace_id, 'delete'))
  assert.deepEqual(await kept(), [])
})

test('a layer snapshot of a workspace that no longer runs fails, and changes nothing', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  await world.ended(await world.operate(workspace_id, 'suspend'))
  const { state, error } = await world.ended(await world.operate(workspace_id, 'layer_snapshot'))
  assert.deepEqual([state, error?.code, error?.details?.['reason']], ['failed', 'checkpoint_failed', 'not_running'])
  assert.equal((await world.workspace(workspace_id)).observed_state, 'suspended')
  assert.equal((await world.db.selectFrom('checkpoints').select('id').execute()).length, 1)
})
