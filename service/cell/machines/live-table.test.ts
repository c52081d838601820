import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld, type World } from '../../../tests/engine/world.ts'
import { openListener } from '../../db/listen.ts'
import { createMachineTable, type LiveTable } from './live-table.ts'

interface Alone extends AsyncDisposable {
  table: LiveTable
}

/** A table without a cell that acts. */
async function tableAlone(world: World): Promise<Alone> {
  const listener = await openListener(world.database.options('berth_cell'))
  const table = createMachineTable({ db: world.database.cell, listener, clock: world.clock, cell_id: world.ids.next() })
  return {
    table,
    async [Symbol.asyncDispose]() {
      table.close()
      await listener.close()
    },
  }
}

test('a suspend request that is told of after the tool call that cancels it is taken out of the row at once', async () => {
  await using world = await createWorld()
  await using alone = await tableAlone(world)
  const [called, uncalled] = [await world.newWorkspace(), await world.newWorkspace()]
  for (const id of [called, uncalled]) await alone.table.load(id)
  const suspend_requested_at = world.clock.now()
  world.clock.advance(1)
  alone.table.touch(called, 'tool_call')
  alone.table.touch(uncalled, 'other')
  for (const id of [uncalled, called]) await world.db.updateTable('workspaces').set({ suspend_requested_at }).where('id', '=', id).execute()
  await world.until(async () => (await world.workspace(called)).suspend_requested_at === null)
  await world.until(async () => alone.table.get(called)?.suspend_requested_at === null)
  assert.deepEqual(alone.table.get(uncalled)?.suspend_requested_at, suspend_requested_at)
})
