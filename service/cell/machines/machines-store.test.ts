import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { sql } from 'kysely'
import { createWorld, entryOf, type World } from '../../../tests/engine/world.ts'
import { readCapacityInUse } from '../capacity/capacity-store.ts'
import { grantsByOrganization } from './machines-store.ts'
import { findSubjects } from '../metering/subjects-store.ts'

async function machineOf(world: World, workspace_id: string) {
  return world.db.selectFrom('machines').selectAll().where('id', '=', workspace_id).executeTakeFirst()
}

test('a machine is in the table from its start to its end: resident, hibernated, woken, suspended', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const started = await world.workspace(workspace_id)
  const { organization_id, project_id, cell_id, grant_cpu_millis, grant_memory_mib, grant_disk_gib, disk } = started
  const expected = { kind: 'workspace', id: workspace_id, workspace_id, organization_id, project_id, cell_id, grant_cpu_millis, grant_memory_mib, grant_disk_gib } // prettier-ignore
  assert.ok(grant_memory_mib !== null && disk !== null)
  assert.deepEqual(await machineOf(world, workspace_id), {
    ...expected, epoch: started.ownership_epoch, fence: started.residency_fence, disk, checkpoint_id: null, residency: 'resident',
  }) // prettier-ignore
  await process.parking.hibernate(await world.until(async () => (await entryOf(process, workspace_id)).machine !== null && (await entryOf(process, workspace_id)))) // prettier-ignore
  const asleep = await world.workspace(workspace_id)
  const { residency, disk: own_disk, checkpoint_id, fence } = (await machineOf(world, workspace_id)) ?? {}
  assert.deepEqual([residency, own_disk, checkpoint_id, fence], ['hibernated', null, asleep.checkpoint_id, asleep.residency_fence])
  assert.equal((await world.ended(await world.operate(workspace_id, 'suspend'))).state, 'succeeded')
  assert.equal(await machineOf(world, workspace_id), undefined)
})

test('no subject has two machines, and each machine has an owner', async () => {
  await using world = await createWorld()
  const { workspace_id } = await world.open()
  const process = await world.startProcess()
  const { organization_id, project_id } = await world.workspace(workspace_id)
  const { id: cell_id } = await world.db.selectFrom('cells').select('id').executeTakeFirstOrThrow()
  const grants = { grant_cpu_millis: 1, grant_memory_mib: 1, grant_disk_gib: 1 }
  const of = { organization_id, project_id, cell_id, epoch: 1, ...grants }
  const insert = (row: { kind: 'workspace' | 'execution' | 'build'; id: string; workspace_id: string | null }) =>
    world.db.insertInto('machines').values({ ...of, ...row }).execute() // prettier-ignore
  const execution = { kind: 'execution', id: world.ids.next(), workspace_id } as const
  await insert(execution)
  await assert.rejects(insert(execution), /machines_pkey/)
  await assert.rejects(insert({ kind: 'execution', id: world.ids.next(), workspace_id: null }), /check constraint/)
  await assert.rejects(insert({ kind: 'workspace', id: world.ids.next(), workspace_id }), /check constraint/)
  const build = { kind: 'build', id: world.ids.next(), workspace_id: null } as const
  await insert(build)
  const stranger = { kind: 'build', id: execution.id } as const
  const found = await findSubjects(process.db, [execution, build, stranger])
  assert.deepEqual([...found].sort(), [[`build.${build.id}`, null], [`execution.${execution.id}`, workspace_id]]) // prettier-ignore
})

test('organizations hold the grants of their machines; a hibernated machine holds its disk alone', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const opened = [await world.open(), await world.open()]
  for (const { operation_id } of opened) assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const [first] = opened
  assert.ok(first)
  const { cell_id, organization_id, grant_disk_gib } = await world.workspace(first.workspace_id)
  assert.ok(cell_id !== null && grant_disk_gib !== null)
  const used = await readCapacityInUse(world.db, cell_id, 0, [], null)
  const [all, ...others] = await grantsByOrganization(process.db, cell_id)
  assert.deepEqual(
    [all?.organization_id, all?.awake, all?.disk_gib, all?.memory_mib, others],
    [organization_id, 2, used.disk_gib, used.memory_mib, []],
  )
  await process.parking.hibernate(await world.until(async () => (await entryOf(process, first.workspace_id)).machine !== null && (await entryOf(process, first.workspace_id)))) // prettier-ignore
  const [after] = await grantsByOrganization(process.db, cell_id)
  assert.deepEqual([after?.awake, after?.disk_gib, after?.memory_mib], [1, used.disk_gib, used.memory_mib / 2])
})

test('the migration adds every machine of an older installation, running, frozen and hibernated, and no other', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const opened = [await world.open(), await world.open(), await world.open(), await world.open()]
  for (const { operation_id } of opened) assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const [running, frozen, hibernated, suspended] = opened.map(({ workspace_id }) => workspace_id)
  assert.ok(running && frozen && hibernated && suspended)
  const entry = (id: string) =>
    world.until(async () => {
      const found = await entryOf(process, id)
      return found.machine === null ? undefined : found
    })
  await entry(running)
  await process.parking.freeze(await entry(frozen))
  await process.parking.hibernate(await entry(hibernated))
  assert.equal((await world.ended(await world.operate(suspended, 'suspend'))).state, 'succeeded')
  const machines = () => world.db.selectFrom('machines').selectAll().orderBy('id').execute()
  const before = await machines()
  assert.deepEqual(before.map(({ id }) => id).sort(), [running, frozen, hibernated].sort())
  await sql`drop view grants`.execute(world.db)
  await sql`drop function follow_machine cascade`.execute(world.db)
  await sql`drop table machines`.execute(world.db)
  await sql.raw(await readFile(new URL('../../db/migrations/0016_machines.sql', import.meta.url), 'utf8')).execute(world.db)
  assert.deepEqual(await machines(), before)
  assert.equal((await world.ended(await world.operate(running, 'suspend'))).state, 'succeeded')
  assert.deepEqual((await machines()).map(({ id }) => id), before.map(({ id }) => id).filter((id) => id !== running)) // prettier-ignore
})
