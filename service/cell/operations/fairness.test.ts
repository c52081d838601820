import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld, type World } from '../../../tests/engine/world.ts'
import { armFailpoint } from '../../lib/failpoints.ts'
import { STARTING_KINDS } from './begin.ts'
import { readGiven } from './queue-store.ts'

const ROOM_FOR_ONE = { capacity: { cpu_millis: 8000, memory_mib: 512, disk_gib: 10_000 } }

async function served(world: World, names: ReadonlyMap<string, string>): Promise<string[]> {
  const rows = await world.db.selectFrom('operations').select('id').where('kind', '=', 'open').where('started_at', 'is not', null).orderBy('started_at').execute() // prettier-ignore
  return rows.flatMap(({ id }) => names.get(id) ?? [])
}

async function serve(world: World, names: ReadonlyMap<string, string>, count: number): Promise<string[]> {
  for (;;) {
    const before = await served(world, names)
    if (before.length >= count) return before
    world.clock.advance(1)
    await world.until(async () => {
      const running = await world.db.selectFrom('workspaces').select('id').where('observed_state', '=', 'running').execute()
      for (const { id } of running) await world.ended(await world.operate(id, 'delete'))
      return (await served(world, names)).length > before.length
    })
  }
}

test('an organization with two hundred opens delays another’s single open by at most one of its own, also after a restart', async () => {
  await using world = await createWorld(ROOM_FOR_ONE)
  const other = await world.another()
  const first = await world.startProcess()
  const names = new Map<string, string>()
  for (let count = 0; count < 200; count += 1) names.set((await world.open()).operation_id, 'many')
  await serve(world, names, 3)
  names.set((await other.open()).operation_id, 'single')
  const begun = await serve(world, names, 5)
  assert.ok(begun.slice(3).includes('single'), begun.join())

  // Both organizations wait. The one that was just served comes second, even after a restart.
  for (let count = 0; count < 3; count += 1) names.set((await other.open()).operation_id, 'single')
  const alternating = await serve(world, names, begun.length + 2)
  await first.kill()
  await world.startProcess()
  const after = (await serve(world, names, alternating.length + 3)).slice(begun.length)
  for (const [index, name] of after.entries()) if (index > 0) assert.notEqual(name, after[index - 1], after.join())
})

test('the fair share counts what this cell granted within the longest wait, oldest first', async () => {
  await using world = await createWorld({ capacity: { cpu_millis: 8000, memory_mib: 2048, disk_gib: 100 } })
  const other = await world.another()
  const process = await world.startProcess()
  const given: { organization_id: string; memory_mib: number }[] = []
  for (const [opener, memory_mib] of [
    [world, 512],
    [other, 256],
    [world, 128],
  ] as const) {
    // prettier-ignore
    world.clock.advance(1)
    const { workspace_id, operation_id } = await opener.open({ resources: { memory_mib } })
    await world.ended(operation_id)
    given.push({ organization_id: (await world.workspace(workspace_id)).organization_id, memory_mib })
  }
  const { cell_id } = await world.db.selectFrom('workspaces').select('cell_id').executeTakeFirstOrThrow()
  const read = () => readGiven(process.db, cell_id ?? '', STARTING_KINDS, world.clock.now())
  assert.deepEqual(await read(), given)
  assert.deepEqual(await readGiven(process.db, '00000000-0000-4000-8000-000000000000', STARTING_KINDS, world.clock.now()), [])
  world.clock.advance(899)
  assert.deepEqual(await read(), given.slice(2))
  world.clock.advance(1)
  assert.deepEqual(await read(), [])
})

test('stalled operations of one organization leave a permit for another', async () => {
  await using world = await createWorld()
  const other = await world.another()
  const go = Promise.withResolvers<void>()
  using _ = armFailpoint('open.O4', () => go.promise)
  await world.startProcess()
  const names = new Map<string, string>()
  for (let count = 0; count < 10; count += 1) names.set((await world.open({ resources: { memory_mib: 128 } })).operation_id, 'many')
  await world.until(async () => (await served(world, names)).length >= 7)
  const { operation_id } = await other.open({ resources: { memory_mib: 128 } })
  names.set(operation_id, 'single')
  await world.until(async () => (await served(world, names)).includes('single'))
  assert.equal((await served(world, names)).length, 8)
  go.resolve()
  for (const id of names.keys()) assert.equal((await world.ended(id)).state, 'succeeded')
})
