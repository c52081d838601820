import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { sql } from 'kysely'
import { createWorld, type World } from '../../../tests/engine/world.ts'
import { cellChannels, openListener } from '../../db/listen.ts'
import type { Machine } from '../host/hostd.ts'
import { createEntryReader } from './entry-reader.ts'
import { createMachineTable, type LiveTable } from './live-table.ts'
import { workspaceSubject } from '../host/subject.ts'

interface Alone extends AsyncDisposable {
  table: LiveTable
}

async function tableAlone(world: World, entries_max?: number): Promise<Alone> {
  const cell_id = world.ids.next()
  const listener = await openListener(world.database.options('berth_cell'), cellChannels(cell_id))
  const table = createMachineTable({ db: world.database.cell, listener, clock: world.clock, cell_id }, entries_max)
  return {
    table,
    async [Symbol.asyncDispose]() {
      table.close()
      await listener.close()
    },
  }
}

test('a suspend request that arrives after the tool call that cancels it is dropped from the row at once', async () => {
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

const machineOf = (workspace_id: string, epoch: number): Machine => ({
  subject: workspaceSubject(workspace_id),
  epoch,
  fence: 1,
  operation_id: 'operation',
  slot: 'slot',
  started_at: '',
  disk: 'disk',
  state: 'running',
  connected: true,
  address: '127.0.0.1:1',
  agent_key: 'key',
  agent_protocol: 1,
  engine: 'engine',
  resources: { cpu_millis: 1, memory_mib: 1, disk_gib: 1 },
})

async function manyRunning(world: World, count: number): Promise<string[]> {
  await world.newWorkspace()
  const { rows } = await sql<{ id: string }>`
    insert into workspaces
    select (jsonb_populate_record(w, jsonb_build_object('id', gen_random_uuid(), 'observed_state', 'running'))).*
    from workspaces w, generate_series(1, ${count}::int) returning id`.execute(world.db)
  return rows.map(({ id }) => id)
}

test('machines of suspended or deleted workspaces are forgotten, and make space for others', async () => {
  await using world = await createWorld()
  await using alone = await tableAlone(world, 20)
  const { table } = alone
  const ids = await manyRunning(world, 22)
  await table.preload(ids)
  for (const id of ids) table.putMachine(machineOf(id, 0))
  await table.preload(ids)
  assert.equal(table.known().filter(({ machine }) => machine !== null).length, 22)
  const [deleted = '', ...others] = ids
  await world.db.updateTable('workspaces').set({ ownership_epoch: 1 }).where('id', '<>', deleted).execute()
  await world.db
    .updateTable('workspaces')
    .set({ deleted_at: world.clock.now(), desired_state: 'deleted' })
    .where('id', '=', deleted)
    .execute()
  assert.equal((await table.fresh(deleted))?.machine ?? null, null)
  await table.preload(others)
  assert.equal(table.known().length, 20)
})

test('a machine of an uncommitted epoch shows once its row has that epoch', async () => {
  await using world = await createWorld()
  await using alone = await tableAlone(world)
  const [id = ''] = await manyRunning(world, 1)
  await alone.table.preload([id])
  alone.table.putMachine(machineOf(id, 1))
  assert.equal((await alone.table.fresh(id))?.machine, null)
  await world.db.updateTable('workspaces').set({ ownership_epoch: 1 }).where('id', '=', id).execute()
  assert.equal((await alone.table.fresh(id))?.machine?.epoch, 1)
})

test('with more workspaces in use than the table should hold, each new one checks two', async () => {
  await using world = await createWorld()
  await using alone = await tableAlone(world, 20)
  const { table } = alone
  const [last = '', ...ids] = await manyRunning(world, 31)
  for (const id of ids) table.holdAwake(id, 'stream')
  await table.preload(ids)
  assert.equal(table.known().length, 30)
  const looks = mock.method(table.activity, 'inUse')
  await table.preload([last])
  assert.equal(looks.mock.callCount(), 2)
})

test('the age of the oldest stale row is known for any number of rows', () => {
  const reader = createEntryReader(() => new Promise(() => undefined))
  assert.equal(reader.staleMs(), 0)
  const before_ms = performance.now()
  reader.keepFresh(Array.from({ length: 200_000 }, (_, index) => String(index)))
  reader.keepFresh(['another'])
  assert.ok(reader.staleMs() <= performance.now() - before_ms)
  reader.close()
})
