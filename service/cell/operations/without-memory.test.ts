import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MEMORY_REFUSALS } from '../../../contract/errors.ts'
import { assertNothingIsLeft } from '../../../tests/engine/invariants.ts'
import { createWorld, entryOf, type World } from '../../../tests/engine/world.ts'
import { Failure } from '../../lib/fail.ts'
import { armFailpoint, FAILPOINTS, type FailpointName } from '../../lib/failpoints.ts'

async function running(world: World): Promise<string> {
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const guest = world.host.guest(workspace_id)
  guest.memory.set('canary', 'in memory')
  guest.files.set('/f', 'on disk')
  return workspace_id
}

const operate = async (world: World, id: string, kind: string, input: object = {}) => world.ended(await world.operate(id, kind, { input }))

async function done(world: World, id: string, kind: string, input: object = {}): Promise<Record<string, string>> {
  const { state, error, result } = await operate(world, id, kind, input)
  assert.deepEqual([state, error], ['succeeded', null], kind)
  return result as Record<string, string>
}

async function refused(world: World, id: string, kind: string, input: object = {}) {
  const { state, error } = await operate(world, id, kind, input)
  assert.equal(state, 'failed', kind)
  assert.match(error?.message ?? '', /its disk can be started without it, by a restore with memory: false$/)
  return [error?.code, error?.retryable, error?.details]
}

const content = (world: World, id: string) => [world.host.guest(id).memory.get('canary'), world.host.guest(id).files.get('/f')]
const stateOf = async (world: World, id: string) => {
  const { observed_state, checkpoint_id } = await world.workspace(id)
  return [observed_state, checkpoint_id]
}

for (const why of MEMORY_REFUSALS) {
  test(`a suspended workspace whose memory is refused (${why}) keeps all of it, and loses no more than its processes`, async () => {
    await using world = await createWorld()
    const process = await world.startProcess()
    const id = await running(world)
    const { checkpoint_id = '' } = await done(world, id, 'suspend')
    if (why === 'damaged') world.host.corrupt(checkpoint_id)
    else world.host.refuseMemory(checkpoint_id, why)
    const code = why === 'damaged' ? 'checkpoint_corrupt' : 'checkpoint_incompatible'
    const missing = why === 'processor' ? { missing_features: ['FAKEFEATURE'] } : {}
    const details = { reason: why, workspace_id: id, checkpoint_id, without_memory: true, ...missing }
    assert.deepEqual(await refused(world, id, 'resume'), [code, false, details])
    assert.deepEqual(await stateOf(world, id), ['suspended', checkpoint_id])
    const { recovery_checkpoint_id, ownership_epoch } = await done(world, id, 'restore', { checkpoint_id, memory: false })
    assert.deepEqual([recovery_checkpoint_id, ownership_epoch], [checkpoint_id, 3])
    assert.equal((await stateOf(world, id))[0], 'suspended')
    await done(world, id, 'resume')
    assert.deepEqual(content(world, id), [undefined, 'on disk'])
    if (why !== 'damaged') {
      // The memory is not damaged: its host may be able to restore it later.
      world.host.refuseMemory(checkpoint_id, undefined)
      await done(world, id, 'restore', { checkpoint_id })
      assert.deepEqual(content(world, id), ['in memory', 'on disk'])
    }
    await process.engine.watch()?.sweep()
    await assertNothingIsLeft(world)
  })
}

test('a running workspace is refused a memory before it is changed, and starts from the disk on request', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world)
  const { checkpoint_id = '' } = await done(world, id, 'snapshot')
  world.host.guest(id).files.set('/f', 'changed since')
  world.host.refuseMemory(checkpoint_id, 'processor')
  const details = { reason: 'processor', workspace_id: id, checkpoint_id, without_memory: true, missing_features: ['FAKEFEATURE'] }
  assert.deepEqual(await refused(world, id, 'restore', { checkpoint_id }), ['checkpoint_incompatible', false, details])
  assert.deepEqual([(await world.workspace(id)).ownership_epoch, content(world, id)], [1, ['in memory', 'changed since']])
  assert.equal(world.host.done.filter(({ verb }) => verb === 'checkpoint').length, 1, 'the snapshot alone')
  const { recovery_checkpoint_id } = await done(world, id, 'restore', { checkpoint_id, memory: false })
  assert.deepEqual(content(world, id), [undefined, 'on disk'])
  await done(world, id, 'restore', { checkpoint_id: recovery_checkpoint_id })
  assert.deepEqual(content(world, id), ['in memory', 'changed since'])
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a damaged image leaves a running workspace suspended on it, with two ways back', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const id = await running(world)
  const { checkpoint_id = '' } = await done(world, id, 'snapshot')
  world.host.guest(id).files.set('/f', 'changed since')
  world.host.corrupt(checkpoint_id)
  const [code, , details] = await refused(world, id, 'restore', { checkpoint_id })
  const { recovery_checkpoint_id, ...told } = details as Record<string, unknown>
  assert.deepEqual([code, told], ['checkpoint_corrupt', { reason: 'damaged', workspace_id: id, checkpoint_id, without_memory: true }])
  assert.deepEqual(await stateOf(world, id), ['suspended', checkpoint_id])
  await done(world, id, 'restore', { checkpoint_id, memory: false })
  await done(world, id, 'resume')
  assert.deepEqual(content(world, id), [undefined, 'on disk'])
  await done(world, id, 'restore', { checkpoint_id: recovery_checkpoint_id })
  assert.deepEqual(content(world, id), ['in memory', 'changed since'])
})

test('a fork of a suspended workspace whose memory is refused fails before it captures; a fork of its disk boots', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world)
  const { checkpoint_id = '' } = await done(world, id, 'suspend')
  world.host.refuseMemory(checkpoint_id, 'engine_not_kept')
  const fork = await world.fork(id)
  const { error } = await world.ended(fork.operation_id)
  assert.deepEqual(
    [error?.code, error?.details?.['workspace_id'], error?.details?.['checkpoint_id']],
    ['checkpoint_incompatible', id, checkpoint_id],
  )
  assert.equal((await world.workspace(fork.workspace_id)).ended_reason, 'fork_failed')
  assert.deepEqual(await stateOf(world, id), ['suspended', checkpoint_id])
  await done(world, id, 'restore', { checkpoint_id, memory: false })
  const again = await world.fork(id)
  assert.equal((await world.ended(again.operation_id)).state, 'succeeded')
  assert.deepEqual(content(world, again.workspace_id), [undefined, 'on disk'])
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a snapshot of a disk alone can be taken, and a restore of it starts from the disk', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const id = await running(world)
  const { checkpoint_id } = await done(world, id, 'suspend')
  await done(world, id, 'restore', { checkpoint_id, memory: false })
  const snapshot = await done(world, id, 'snapshot')
  await done(world, id, 'resume')
  world.host.guest(id).files.set('/f', 'changed since')
  await done(world, id, 'restore', { checkpoint_id: snapshot['checkpoint_id'] })
  assert.deepEqual(content(world, id), [undefined, 'on disk'])
})

test('a wake whose memory is refused names the ways to continue, and a restore of its disk needs no wake', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const id = await running(world)
  await world.until(async () => (await process.table.fresh(id))?.machine ?? undefined)
  await process.parking.hibernate(await entryOf(process, id))
  const { checkpoint_id } = await world.workspace(id)
  assert.ok(checkpoint_id)
  world.host.refuseMemory(checkpoint_id, 'processor')
  await assert.rejects(process.parking.wake(await entryOf(process, id)), (error: unknown) => {
    assert.ok(error instanceof Failure)
    assert.deepEqual(
      [error.code, error.reason, error.options.details],
      ['service_unavailable', 'wake_failed', { memory_refused: 'processor', checkpoint_id, without_memory: true }],
    )
    return true
  })
  assert.equal((await world.workspace(id)).residency, 'hibernated')
  const { recovery_checkpoint_id } = await done(world, id, 'restore', { checkpoint_id, memory: false })
  assert.equal(recovery_checkpoint_id, checkpoint_id)
  const row = await world.workspace(id)
  assert.deepEqual([row.observed_state, row.residency, content(world, id)], ['running', 'resident', [undefined, 'on disk']])
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('under a refused engine nothing starts, running machines stay resident, and disks boot under the next engine', async () => {
  await using world = await createWorld({ engine: 'first' })
  const process = await world.startProcess()
  const [awake, asleep] = [await running(world), await running(world)]
  const { checkpoint_id } = await done(world, asleep, 'suspend')
  world.host.refuseEngines(['first'])
  await process.engine.watch()?.sweep()
  await process.parking.hibernate(await entryOf(process, awake))
  assert.deepEqual([(await world.workspace(awake)).residency, content(world, awake)], ['resident', ['in memory', 'on disk']])
  const opened = await world.open()
  const { error } = await world.ended(opened.operation_id)
  assert.deepEqual([error?.code, error?.details], ['dependency_failed', { reason: 'engine_refused' }])
  const details = { reason: 'engine_refused', workspace_id: asleep, checkpoint_id, without_memory: true }
  assert.deepEqual(await refused(world, asleep, 'resume'), ['checkpoint_incompatible', false, details])
  const fork = await world.fork(awake)
  assert.equal((await world.ended(fork.operation_id)).error?.code, 'checkpoint_incompatible')
  assert.deepEqual(content(world, awake), ['in memory', 'on disk'])

  world.host.upgrade('second', 'kept')
  await process.engine.watch()?.sweep()
  assert.deepEqual(await refused(world, asleep, 'resume'), ['checkpoint_incompatible', false, details])
  for (const id of [awake, asleep]) {
    if (id === awake) await done(world, id, 'suspend')
    await done(world, id, 'restore', { checkpoint_id: (await world.workspace(id)).checkpoint_id, memory: false })
    await done(world, id, 'resume')
    assert.deepEqual(content(world, id), [undefined, 'on disk'])
  }
  const { machines } = await world.host.inventory()
  assert.deepEqual(machines.map(({ engine, engine_refused }) => [engine, engine_refused]), [['second', undefined], ['second', undefined]]) // prettier-ignore
  await done(world, opened.workspace_id, 'open')
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

const POINTS = (Object.keys(FAILPOINTS) as FailpointName[]).filter(
  (name) => FAILPOINTS[name].owner === 'cell' && name.startsWith('restore.'),
)

for (const point of POINTS) {
  for (const from of ['running', 'suspended'] as const) {
    // A suspended workspace has no machine to stop or start.
    if (from === 'suspended' && /V(6|7)/.test(point)) continue
    test(`${point}, kill -9: a ${from} workspace is its disk without memory in the end, and nothing is left`, async () => {
      await using world = await createWorld()
      let process = await world.startProcess()
      const id = await running(world)
      const { checkpoint_id } = await done(world, id, from === 'running' ? 'snapshot' : 'suspend')
      const hit = Promise.withResolvers<void>()
      let hits = 0
      using _ = armFailpoint(point, () => {
        hits += 1
        hit.resolve()
        return hits === 1 ? new Promise(() => undefined) : undefined
      })
      const operation_id = await world.operate(id, 'restore', { input: { checkpoint_id, memory: false } })
      await hit.promise
      await process.kill()
      process = await world.startProcess()
      assert.equal((await world.ended(operation_id)).state, 'succeeded')
      assert.equal((await world.workspace(id)).observed_state, from)
      if (from === 'suspended') await done(world, id, 'resume')
      assert.deepEqual(content(world, id), [undefined, 'on disk'])
      await process.engine.watch()?.sweep()
      await assertNothingIsLeft(world)
    })
  }
}
