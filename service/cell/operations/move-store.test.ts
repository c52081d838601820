import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { createWorld } from '../../../tests/engine/world.ts'

const waiting = sql`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`

test('the commit of a start does not lock the workspace while it waits for its operation', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const starting = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  using _ = world.host.intercept('start', 'before', async () => {
    starting.resolve()
    await go.promise
  })
  const { workspace_id, operation_id } = await world.open()
  await starting.promise
  await world.db.transaction().execute(async (tx) => {
    // A delete locks the two rows in this order.
    await sql`select 1 from operations where id = ${operation_id} for no key update`.execute(tx)
    go.resolve()
    await world.until(async () => (await waiting.execute(world.db)).rows.length > 0)
    await sql`select 1 from workspaces where id = ${workspace_id} for no key update nowait`.execute(tx)
  })
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
})
