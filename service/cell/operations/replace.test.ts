import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertNothingIsLeft } from '../../../tests/engine/invariants.ts'
import { createWorld, type World } from '../../../tests/engine/world.ts'
import { expire } from '../reconcile/expiry.ts'
import { HostFailure } from '../host/hostd.ts'
import pino from 'pino'

const DAY_SECONDS = 24 * 3600

async function running(world: World): Promise<string> {
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const guest = world.host.guest(workspace_id)
  guest.memory.set('canary', 'in memory')
  guest.files.set('/f', 'on disk')
  return workspace_id
}

const done = async (world: World, id: string, kind: string, input: object = {}) => {
  const operation = await world.ended(await world.operate(id, kind, { input }))
  assert.deepEqual([operation.state, operation.error], ['succeeded', null], kind)
  return operation.result as Record<string, string>
}

test('a suspended workspace that is reset stays suspended, boots blank and can be restored', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world)
  const { checkpoint_id } = await done(world, id, 'suspend')
  const { recovery_checkpoint_id } = await done(world, id, 'reset')
  assert.equal(recovery_checkpoint_id, checkpoint_id)
  assert.equal((await world.workspace(id)).observed_state, 'suspended')
  await done(world, id, 'resume')
  assert.equal(world.host.guest(id).files.get('/f'), undefined)
  await done(world, id, 'restore', { checkpoint_id: recovery_checkpoint_id })
  const guest = world.host.guest(id)
  assert.deepEqual([guest.memory.get('canary'), guest.files.get('/f')], ['in memory', 'on disk'])
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a fork of a workspace that was reset while suspended is as blank as it', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const id = await running(world)
  await done(world, id, 'suspend')
  await done(world, id, 'reset')
  const fork = await world.fork(id)
  assert.equal((await world.ended(fork.operation_id)).state, 'succeeded')
  assert.equal(world.host.guest(fork.workspace_id).files.get('/f'), undefined)
})

test('a snapshot of a suspended workspace survives later suspends; superseded checkpoints are deleted', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world)
  await done(world, id, 'suspend')
  const { checkpoint_id } = await done(world, id, 'snapshot')
  await done(world, id, 'resume')
  world.host.guest(id).files.set('/f', 'changed since')
  await done(world, id, 'suspend')
  await done(world, id, 'restore', { checkpoint_id })
  assert.equal((await world.workspace(id)).observed_state, 'suspended')
  await done(world, id, 'resume')
  assert.equal(world.host.guest(id).files.get('/f'), 'on disk')
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a recovery checkpoint and its files are deleted after seven days, but not while the workspace would resume from it', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world)
  const { recovery_checkpoint_id } = await done(world, id, 'reset')
  await done(world, id, 'suspend')
  await done(world, id, 'restore', { checkpoint_id: recovery_checkpoint_id })
  const context = { db: world.db, clock: world.clock, log: pino({ level: 'silent' }) }
  const kept = () => world.db.selectFrom('checkpoints').select('id').where('workspace_id', '=', id).execute()
  world.clock.advance(7 * DAY_SECONDS - 60)
  await expire(context)
  assert.equal((await kept()).length, 2)
  world.clock.advance(120)
  await expire(context)
  assert.deepEqual(await kept(), [{ id: recovery_checkpoint_id }])
  await done(world, id, 'resume')
  await expire(context)
  assert.deepEqual(await kept(), [])
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a reset whose new machine does not start fails with the recovery checkpoint, and the next open is blank', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const id = await running(world)
  let broken = true
  world.host.intercept('start', 'before', () => {
    if (broken) throw new HostFailure('start_failed', 'simulated', { retryable: false })
  })
  const operation = await world.ended(await world.operate(id, 'reset'))
  assert.equal(operation.state, 'failed')
  assert.equal(typeof operation.error?.details?.['recovery_checkpoint_id'], 'string')
  assert.equal((await world.workspace(id)).observed_state, 'failed')
  broken = false
  await done(world, id, 'open')
  assert.equal(world.host.guest(id).files.get('/f'), undefined)
})

test('a failed workspace that is restored is suspended at the checkpoint, and its old disk can be restored', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world)
  const { checkpoint_id } = await done(world, id, 'snapshot')
  world.host.guest(id).files.set('/f', 'later')
  world.host.kill(id)
  await world.until(async () => (await world.workspace(id)).observed_state === 'failed')
  const { recovery_checkpoint_id } = await done(world, id, 'restore', { checkpoint_id })
  const row = await world.workspace(id)
  assert.deepEqual([row.observed_state, row.ownership_epoch, row.disk], ['suspended', 2, null])
  await done(world, id, 'resume')
  const guest = world.host.guest(id)
  assert.deepEqual([guest.memory.get('canary'), guest.files.get('/f')], ['in memory', 'on disk'])
  await done(world, id, 'restore', { checkpoint_id: recovery_checkpoint_id })
  assert.deepEqual([world.host.guest(id).memory.get('canary'), world.host.guest(id).files.get('/f')], [undefined, 'later'])
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a restore undoes a reset whose new machine did not start', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world)
  const broken = world.host.intercept('start', 'before', () => {
    throw new HostFailure('disk_full', 'simulated', { retryable: false })
  })
  const { error } = await world.ended(await world.operate(id, 'reset'))
  broken[Symbol.dispose]()
  assert.deepEqual([error?.code, error?.details?.['reason']], ['dependency_failed', 'disk_full'])
  assert.equal((await world.workspace(id)).observed_state, 'failed')
  await done(world, id, 'restore', { checkpoint_id: error?.details?.['recovery_checkpoint_id'] })
  await done(world, id, 'resume')
  const guest = world.host.guest(id)
  assert.deepEqual([guest.memory.get('canary'), guest.files.get('/f')], ['in memory', 'on disk'])
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a restore of a failed workspace whose disk cannot be captured leaves it failed, and an open can start it', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const id = await running(world)
  const { checkpoint_id } = await done(world, id, 'snapshot')
  world.host.kill(id)
  await world.until(async () => (await world.workspace(id)).observed_state === 'failed')
  const broken = world.host.intercept('checkpoint', 'before', () => {
    throw new HostFailure('no_space', 'simulated', { retryable: true })
  })
  assert.equal((await world.ended(await world.operate(id, 'restore', { input: { checkpoint_id } }))).state, 'failed')
  broken[Symbol.dispose]()
  const row = await world.workspace(id)
  assert.deepEqual([row.observed_state, row.desired_state], ['failed', 'running'])
  await done(world, id, 'open')
  assert.equal(world.host.guest(id).files.get('/f'), 'on disk')
})

for (const kind of ['reset', 'restore', 'snapshot']) {
  test(`${kind} whose capture fails leaves the guest running as it was`, async () => {
    await using world = await createWorld()
    const process = await world.startProcess()
    const id = await running(world)
    const { checkpoint_id } = await done(world, id, 'snapshot')
    world.host.intercept('checkpoint', 'before', () => {
      throw new HostFailure('checkpoint_failed', 'simulated', { retryable: false })
    })
    const operation = await world.ended(await world.operate(id, kind, { input: { checkpoint_id } }))
    assert.deepEqual([operation.state, operation.error?.code], ['failed', 'checkpoint_failed'])
    const row = await world.workspace(id)
    assert.deepEqual([row.observed_state, row.ownership_epoch], ['running', 1])
    assert.equal(world.host.guest(id).memory.get('canary'), 'in memory')
    await process.engine.watch()?.sweep()
    await assertNothingIsLeft(world)
  })
}
