import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { createWorld } from '../../../tests/engine/world.ts'
import { expire } from './expiry.ts'

test('a tombstone goes after 30 days with its operations, and its key stays used', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const source = await world.open()
  await world.ended(source.operation_id)
  const fork = await world.fork(source.workspace_id)
  await world.ended(fork.operation_id)
  await world.ended(await world.operate(source.workspace_id, 'delete'))
  const context = { db: world.database.cell, clock: world.clock, log: pino({ level: 'silent' }) }
  world.clock.advance(30 * 24 * 3600 - 60)
  await expire(context)
  assert.equal((await world.workspace(source.workspace_id)).observed_state, 'deleted')
  world.clock.advance(120)
  await expire(context)
  const left = await world.db.selectFrom('workspaces').select('id').execute()
  assert.deepEqual(left, [{ id: fork.workspace_id }])
  assert.equal((await world.operation(fork.operation_id)).source_workspace_id, null)
  assert.deepEqual(await world.db.selectFrom('operations').select('id').where('workspace_id', '=', source.workspace_id).execute(), [])
  const keys = await world.db.selectFrom('workspace_keys').select('reusable').where('workspace_id', '=', source.workspace_id).execute()
  assert.deepEqual(keys, [{ reusable: false }])
})
