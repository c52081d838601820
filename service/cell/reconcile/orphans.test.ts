import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { createWorld, type World } from '../../../tests/engine/world.ts'
import { dumpRows } from '../../../tests/support/put-back.ts'
import { textFile } from '../../../tests/support/trees.ts'

async function running(world: World): Promise<string> {
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  return workspace_id
}

async function done(world: World, workspace_id: string, kind: string): Promise<void> {
  const operation = await world.ended(await world.operate(workspace_id, kind))
  assert.equal(operation.state, 'succeeded', JSON.stringify(operation.error))
}

const EIGHT_DAYS = 8 * 24 * 3600

async function filesOf(world: World, workspace_id: string) {
  const files = (await world.host.inventory()).files.find((one) => one.subject.id === workspace_id)
  return {
    disks: files?.disks.length ?? 0,
    checkpoints: files?.checkpoints.map(({ checkpoint_id }) => checkpoint_id) ?? [],
    quarantined: files?.quarantined.map(({ kind }) => kind) ?? [],
  }
}

const machineOf = async (world: World, id: string) => (await world.host.inventory()).machines.find((one) => one.subject.id === id)

test('a database of another installation changes nothing on the host, and its cell reports why it is not ready', async () => {
  await using world = await createWorld()
  const first = await world.startProcess()
  const [resident, asleep] = [await running(world), await running(world)]
  await done(world, asleep, 'suspend')
  await first.kill()
  const before = await world.host.inventory()
  const putBack = await dumpRows(world.db)
  await sql`truncate workspaces cascade`.execute(world.db)
  await sql`update installation set id = gen_random_uuid()`.execute(world.db)
  const stranger = await world.startProcess({ wait: false })
  await world.until(async () => stranger.engine.whyNot()?.includes('belongs to installation'))
  assert.equal(stranger.engine.isReady(), false)
  assert.deepEqual(await world.host.inventory(), before)
  await stranger.kill()
  await putBack()
  await world.startProcess()
  assert.equal((await world.workspace(resident)).observed_state, 'running')
  await done(world, asleep, 'resume')
})

test('a workspace that was suspended again since the dump keeps that state, and resumes', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world)
  await done(world, id, 'suspend')
  const putBack = await dumpRows(world.db)
  await done(world, id, 'resume')
  world.host.guest(id).files.set('/written', 'since the dump')
  await done(world, id, 'suspend')
  const newest = await world.workspace(id)
  // The suspend is acknowledged before the disk of its machine is removed. With that disk the workspace would be `failed`.
  await world.until(async () => (await world.host.inventory()).files.every(({ subject, disks }) => subject.id !== id || disks.length === 0))
  await process.kill()
  await putBack()
  await world.startProcess()
  const row = await world.workspace(id)
  assert.deepEqual([row.observed_state, row.checkpoint_id], ['suspended', newest.checkpoint_id])
  assert.ok(row.ownership_epoch > newest.ownership_epoch - 1)
  await done(world, id, 'resume')
  assert.equal(world.host.guest(id).files.get('/written'), 'since the dump')
})

test('before a cell acts, a tree is at its last revision, and the quarantine of unnamed layers starts again', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world)
  const { cell_id } = await world.workspace(id)
  const { trees } = process
  const write = async (base: number, text: string) => {
    using publication = trees.begin(id)
    const { entry, content } = textFile(text)
    await publication.put([content])
    await publication.publish(base, [{ kind: 'put', path: ['a'], entry }])
  }
  const now = world.clock.now()
  await world.db.insertInto('trees').values({ workspace_id: id, root: null, created_at: now, updated_at: now }).execute()
  const since = new Date(now.getTime() - EIGHT_DAYS * 1000)
  await world.db
    .insertInto('unnamed_layers')
    .values({ cell_id: cell_id ?? '', layer: 'b'.repeat(64), size_bytes: 1, since })
    .execute()
  await write(0, 'of the dump')
  const putBack = await dumpRows(world.db)
  await write(1, 'since the dump')
  await done(world, id, 'suspend') // the suspend raises the host's highest fence
  await process.kill()
  await putBack()
  const next = await world.startProcess()
  assert.equal(await next.trees.revision(id), 2)
  assert.deepEqual(await world.db.selectFrom('unnamed_layers').select('layer').execute(), [])
})

test("a machine that was started since the dump becomes its workspace's, which the dump has suspended", async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world)
  await done(world, id, 'suspend')
  const putBack = await dumpRows(world.db)
  await done(world, id, 'resume')
  const machine = await machineOf(world, id)
  await process.kill()
  await putBack()
  const second = await world.startProcess()
  const row = await world.workspace(id)
  assert.deepEqual([row.observed_state, row.disk, row.ownership_epoch], ['running', machine?.disk, machine?.epoch])
  assert.equal((await second.table.load(id))?.machine?.fence, machine?.fence)
  await done(world, id, 'suspend')
})

test('an operation that is under way in the dump is ended if the host has gone on since', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world)
  await process.kill()
  const operation_id = await world.operate(id, 'suspend')
  const putBack = await dumpRows(world.db)
  const second = await world.startProcess()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  await done(world, id, 'resume')
  const machine = await machineOf(world, id)
  await second.kill()
  await putBack()
  await world.startProcess()
  const { state, error } = await world.operation(operation_id)
  assert.deepEqual([state, error?.code], ['failed', 'interrupted'])
  assert.deepEqual([(await world.workspace(id)).observed_state, await machineOf(world, id)], ['running', machine])
})

test('a workspace that lost its machine since the dump starts from its disk, and its snapshots can be restored', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world)
  await done(world, id, 'suspend')
  const putBack = await dumpRows(world.db)
  await done(world, id, 'resume')
  world.host.guest(id).files.set('/written', 'since the dump')
  await done(world, id, 'snapshot')
  const [snapshot] = (await filesOf(world, id)).checkpoints
  await process.kill()
  world.host.reboot()
  await putBack()
  await world.startProcess()
  assert.equal((await world.workspace(id)).observed_state, 'failed')
  const kept = await world.db.selectFrom('checkpoints').select(['id', 'kind']).where('workspace_id', '=', id).execute()
  assert.ok(kept.some((one) => one.id === snapshot && one.kind === 'recovery'))
  await done(world, id, 'open')
  assert.equal(world.host.guest(id).files.get('/written'), 'since the dump')
})

test('a workspace that no row has ever named is stopped and quarantined across restarts, and comes back with its rows', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const putBack = await dumpRows(world.db)
  const [lost, found] = [await running(world), await running(world)]
  await process.kill()
  const newer = await dumpRows(world.db)
  await putBack()
  const second = await world.startProcess()
  assert.deepEqual(await filesOf(world, lost), { disks: 1, checkpoints: [], quarantined: ['subject'] })
  assert.deepEqual((await world.host.inventory()).machines, [])
  await second.kill()
  world.host.restart()
  await newer()
  await sql`delete from workspace_keys where workspace_id = ${lost}`.execute(world.db)
  await sql`delete from operations where workspace_id = ${lost}`.execute(world.db)
  await sql`delete from workspaces where id = ${lost}`.execute(world.db)
  const third = await world.startProcess()
  assert.deepEqual(await filesOf(world, found), { disks: 1, checkpoints: [], quarantined: [] })
  assert.deepEqual(await filesOf(world, lost), { disks: 1, checkpoints: [], quarantined: ['subject'] })
  await done(world, found, 'open')
  world.clock.advance(EIGHT_DAYS)
  await third.engine.watch()?.sweep()
  assert.deepEqual(await filesOf(world, lost), { disks: 0, checkpoints: [], quarantined: [] })
  assert.equal((await filesOf(world, found)).disks, 1)
})
