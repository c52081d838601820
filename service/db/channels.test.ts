import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld } from '../../tests/engine/world.ts'
import { API_CHANNELS, cellChannels, openListener, type Channel, type Channels } from './listen.ts'

const OF_CELLS = ['berth_workspace', 'berth_operation', 'berth_checkpoint'] as const

test('a cell hears of its own and of unplaced workspaces, with operations and checkpoints; the api hears of operations', async () => {
  await using world = await createWorld()
  const { db, ids, clock } = world
  const [here, there] = [ids.next(), ids.next()]
  for (const id of [here, there])
    await db.insertInto('cells').values({ id, name: id, endpoint: 'http://c.test', created_at: clock.now() }).execute()
  const told: string[] = []
  const listen = async (who: string, channels: Channels, names: readonly Channel[]) => {
    const listener = await openListener(world.database.options(who === 'api' ? 'berth_api' : 'berth_cell'), channels)
    for (const name of names) listener.on(name, (id) => void told.push(`${who} ${name.slice('berth_'.length)} ${id}`))
    return listener
  }
  const listeners = [
    await listen('here', cellChannels(here), OF_CELLS),
    await listen('there', cellChannels(there), OF_CELLS),
    await listen('api', API_CHANNELS, ['berth_operation']),
  ]
  try {
    const marks: string[] = []
    /** Writes a mark last and waits until every listener has received it, because each listener has its own connection. */
    const heard = async () => {
      const mark = await world.newWorkspace()
      const operation = await world.operate(mark, 'suspend')
      marks.push(mark, operation)
      const awaited = [`here operation ${operation}`, `there operation ${operation}`, `api operation ${operation}`]
      await world.until(async () => awaited.every((line) => told.includes(line)))
      const lines = told.splice(0).filter((line) => !marks.some((id) => line.endsWith(id)))
      return [...new Set(lines)].sort()
    }
    const id = await world.newWorkspace()
    assert.deepEqual(await heard(), [`here workspace ${id}`, `there workspace ${id}`])
    const change = (values: object) => db.updateTable('workspaces').set(values).where('id', '=', id).execute()
    await change({ cell_id: here })
    assert.deepEqual(await heard(), [`here workspace ${id}`, `there workspace ${id}`])
    await change({ observed_state: 'running' })
    await change({ tokens_revoked_before: clock.now() })
    assert.deepEqual(await heard(), [`here workspace ${id}`])
    const operation = await world.operate(id, 'suspend')
    assert.deepEqual(await heard(), [`api operation ${operation}`, `here operation ${operation}`, `here workspace ${id}`])
    const checkpoint_id = ids.next()
    const checkpoint = {
      id: checkpoint_id,
      workspace_id: id,
      cell_id: here,
      operation_id: operation,
      kind: 'suspend' as const,
      label: null,
    }
    const rest = { epoch: 1, engine: '', size_bytes: 1, resources: '{}', created_at: clock.now(), expires_at: null }
    await db
      .insertInto('checkpoints')
      .values({ ...checkpoint, ...rest })
      .execute()
    await db.updateTable('checkpoints').set({ deleted_at: clock.now() }).execute()
    assert.deepEqual(await heard(), [`here checkpoint ${checkpoint_id}`])
    await change({ cell_id: there })
    assert.deepEqual(await heard(), [`here workspace ${id}`, `there workspace ${id}`])
    await db.deleteFrom('workspace_holds').execute()
    assert.deepEqual(await heard(), [`there workspace ${id}`])
    assert.throws(() => listeners[2]?.on('berth_workspace', () => undefined), /does not listen/)
  } finally {
    for (const listener of listeners) await listener.close()
  }
})
