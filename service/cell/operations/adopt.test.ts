import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertNothingIsLeft } from '../../../tests/engine/invariants.ts'
import { createWorld, entryOf, type World } from '../../../tests/engine/world.ts'
import { armFailpoint } from '../../lib/failpoints.ts'
import { HostFailure } from '../host/hostd.ts'
import type { NewWorkspace } from '../../../tests/engine/intentions.ts'

async function withFork(world: World, wanted: NewWorkspace = {}, of: NewWorkspace = {}): Promise<{ id: string; fork: string }> {
  const { workspace_id: id, operation_id } = await world.open(of)
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  write(world, id, 'of the workspace')
  const forked = await world.fork(id, wanted)
  const { state, error } = await world.ended(forked.operation_id)
  assert.deepEqual([state, error], ['succeeded', null])
  write(world, forked.workspace_id, 'of the fork')
  return { id, fork: forked.workspace_id }
}

function write(world: World, id: string, text: string): void {
  const guest = world.host.guest(id)
  guest.memory.set('canary', text)
  guest.files.set('/f', text)
}

const read = (world: World, id: string) => [world.host.guest(id).memory.get('canary'), world.host.guest(id).files.get('/f')]
const both = (text: string) => [text, text]

const ask = (world: World, id: string, fork: string, delete_fork = false) =>
  world.operate(id, 'adopt', { source: fork, input: { fork_workspace_id: fork, delete_fork } })

async function done(world: World, operation_id: string): Promise<Record<string, unknown>> {
  const { state, error, result } = await world.ended(operation_id)
  assert.deepEqual([state, error], ['succeeded', null])
  return result ?? {}
}

const adopted = async (world: World, id: string, fork: string, delete_fork = false) => done(world, await ask(world, id, fork, delete_fork))
const operated = async (world: World, id: string, kind: string, input: object = {}) => done(world, await world.operate(id, kind, { input }))
const stateOf = async (world: World, id: string) => (await world.workspace(id)).observed_state

test('a workspace continues from its fork in the next epoch; the fork runs on, and the old state can be restored', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, fork } = await withFork(world)
  const result = await adopted(world, id, fork)
  const row = await world.workspace(id)
  assert.deepEqual([row.observed_state, row.ownership_epoch, result['ownership_epoch']], ['running', 2, 2])
  assert.deepEqual([read(world, id), read(world, fork)], [both('of the fork'), both('of the fork')])
  assert.deepEqual([(await world.workspace(fork)).ownership_epoch, (await entryOf(process, fork)).hold], [1, null])
  write(world, fork, 'later')
  assert.deepEqual(read(world, id), both('of the fork'))
  const checkpoint_id = result['recovery_checkpoint_id']
  const kept = await world.db.selectFrom('checkpoints').select(['id', 'kind', 'expires_at']).where('workspace_id', '=', id).execute()
  assert.deepEqual(kept.map(({ kind, expires_at }) => `${kind} ${expires_at !== null}`).sort(), ['fork false', 'recovery true'])
  assert.equal(kept.find(({ kind }) => kind === 'recovery')?.id, checkpoint_id)
  await operated(world, id, 'restore', { checkpoint_id })
  assert.deepEqual(read(world, id), both('of the workspace'))
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a fork can adopt its source, and two workspaces can adopt each other', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, fork } = await withFork(world)
  await adopted(world, fork, id)
  assert.deepEqual(read(world, fork), both('of the workspace'))
  write(world, fork, 'of the fork again')
  await adopted(world, id, fork)
  assert.deepEqual(read(world, id), both('of the fork again'))
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

for (const how of ['suspended', 'hibernated'] as const) {
  test(`a ${how} fork is adopted as it lies there, and stays so`, async () => {
    await using world = await createWorld()
    const process = await world.startProcess()
    const { id, fork } = await withFork(world)
    if (how === 'suspended') await operated(world, fork, 'suspend')
    else await process.parking.hibernate(await entryOf(process, fork))
    await adopted(world, id, fork)
    assert.deepEqual(read(world, id), both('of the fork'))
    const { observed_state, residency } = await world.workspace(fork)
    assert.deepEqual([observed_state, residency], how === 'suspended' ? ['suspended', 'resident'] : ['running', 'hibernated'])
    await process.engine.watch()?.sweep()
    await assertNothingIsLeft(world)
  })
}

test('a suspended workspace stays suspended, resumes with the fork’s state, and its fork is deleted with the success', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, fork } = await withFork(world)
  const { checkpoint_id } = await operated(world, id, 'suspend')
  const { recovery_checkpoint_id } = await adopted(world, id, fork, true)
  assert.equal(recovery_checkpoint_id, checkpoint_id)
  const row = await world.workspace(id)
  assert.deepEqual([row.observed_state, row.ownership_epoch], ['suspended', 3])
  await world.until(async () => (await stateOf(world, fork)) === 'deleted')
  await operated(world, id, 'resume')
  assert.deepEqual(read(world, id), both('of the fork'))
  await operated(world, id, 'restore', { checkpoint_id })
  assert.deepEqual(read(world, id), both('of the workspace'))
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

for (const mode of ['throw', 'kill -9'] as const) {
  for (const point of ['adopt.A5', 'adopt.A7', 'adopt.A8'] as const) {
    test(`a suspended workspace, ${mode} at ${point}: it is one of both, and its fork is deleted once`, async () => {
      await using world = await createWorld()
      let process = await world.startProcess()
      const { id, fork } = await withFork(world)
      await operated(world, id, 'suspend')
      const hit = Promise.withResolvers<void>()
      let hits = 0
      using _ = armFailpoint(point, () => {
        if ((hits += 1) > 1) return
        hit.resolve()
        if (mode === 'throw') throw new Error('simulated')
        return new Promise(() => undefined)
      })
      const operation_id = await ask(world, id, fork, true)
      await hit.promise
      if (mode === 'kill -9') {
        await process.kill()
        process = await world.startProcess()
      }
      await done(world, operation_id)
      await world.until(async () => (await stateOf(world, fork)) === 'deleted')
      const deletes = await world.db
        .selectFrom('operations')
        .select('id')
        .where('workspace_id', '=', fork)
        .where('kind', '=', 'delete')
        .execute()
      assert.equal(deletes.length, 1)
      assert.deepEqual([(await world.workspace(id)).ownership_epoch, await stateOf(world, id)], [3, 'suspended'])
      await operated(world, id, 'resume')
      assert.deepEqual(read(world, id), both('of the fork'))
      await process.engine.watch()?.sweep()
      await assertNothingIsLeft(world)
    })
  }
}

test('a failed workspace adopts: it is suspended with the fork’s state, and its old disk can be restored', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, fork } = await withFork(world)
  world.host.kill(id)
  await world.until(async () => (await stateOf(world, id)) === 'failed')
  const { recovery_checkpoint_id: checkpoint_id } = await adopted(world, id, fork)
  assert.equal(await stateOf(world, id), 'suspended')
  await operated(world, id, 'resume')
  assert.deepEqual(read(world, id), both('of the fork'))
  await operated(world, id, 'restore', { checkpoint_id })
  assert.deepEqual(read(world, id), [undefined, 'of the workspace'])
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a fork with more memory than the workspace may have is refused, and both stay as they were', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, fork } = await withFork(world, { resources: { memory_mib: 1024 } })
  const { state, error } = await world.ended(await ask(world, id, fork, true))
  assert.deepEqual([state, error?.code, error?.details?.['reason']], ['failed', 'invalid_resources', 'below_captured_memory'])
  assert.deepEqual([read(world, id), read(world, fork)], [both('of the workspace'), both('of the fork')])
  assert.deepEqual([await stateOf(world, id), await stateOf(world, fork)], ['running', 'running'])
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a fork that died before it was captured fails the adoption, and the workspace runs on', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, fork } = await withFork(world)
  const dead = armFailpoint('adopt.A3', () => world.host.kill(fork))
  const { state, error } = await world.ended(await ask(world, id, fork))
  dead[Symbol.dispose]()
  assert.deepEqual([state, error?.code, error?.details?.['reason']], ['failed', 'checkpoint_failed', 'not_running'])
  assert.deepEqual([read(world, id), (await world.workspace(id)).ownership_epoch], [both('of the workspace'), 1])
  await world.until(async () => (await stateOf(world, fork)) === 'failed')
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

for (const point of ['adopt.A2', 'adopt.A3', 'adopt.A4', 'adopt.A5'] as const) {
  test(`a fork that is deleted at ${point} fails the adoption, and the workspace runs on`, async () => {
    await using world = await createWorld()
    const process = await world.startProcess()
    const { id, fork } = await withFork(world)
    using _ = armFailpoint(point, async () => {
      await done(world, await world.operate(fork, 'delete'))
    })
    const { state, error } = await world.ended(await ask(world, id, fork))
    assert.deepEqual([state, error?.code, error?.details?.['reason']], ['failed', 'checkpoint_failed', 'workspace_deleted'])
    assert.deepEqual([read(world, id), await stateOf(world, id)], [both('of the workspace'), 'running'])
    await process.engine.watch()?.sweep()
    await assertNothingIsLeft(world)
  })
}

test('a fork that its owner deletes after the commit is deleted once, and the adoption succeeds', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, fork } = await withFork(world)
  using _ = armFailpoint('adopt.A6', async () => {
    await done(world, await world.operate(fork, 'delete'))
  })
  await adopted(world, id, fork, true)
  assert.deepEqual(read(world, id), both('of the fork'))
  const deletes = await world.db
    .selectFrom('operations')
    .select('id')
    .where('workspace_id', '=', fork)
    .where('kind', '=', 'delete')
    .execute()
  assert.equal(deletes.length, 1)
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a workspace that is deleted while it adopts leaves the fork as it was, even if the fork was to be deleted', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, fork } = await withFork(world)
  using _ = armFailpoint('adopt.A5', async () => {
    await done(world, await world.operate(id, 'delete'))
  })
  assert.equal((await world.ended(await ask(world, id, fork, true))).state, 'canceled')
  await world.until(async () => (await stateOf(world, id)) === 'deleted')
  assert.deepEqual([await stateOf(world, fork), read(world, fork)], ['running', both('of the fork')])
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('an adoption whose machine does not start leaves the workspace suspended with the fork’s state, and keeps the fork', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, fork } = await withFork(world)
  const broken = world.host.intercept('restore', 'before', () => {
    throw new HostFailure('restore_failed', 'simulated', { retryable: false })
  })
  const { state, error } = await world.ended(await ask(world, id, fork, true))
  broken[Symbol.dispose]()
  assert.deepEqual([state, typeof error?.details?.['recovery_checkpoint_id']], ['failed', 'string'])
  assert.deepEqual([await stateOf(world, id), await stateOf(world, fork)], ['suspended', 'running'])
  await operated(world, id, 'resume')
  assert.deepEqual(read(world, id), both('of the fork'))
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('an adoption whose recovery checkpoint fails leaves both running as they were', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, fork } = await withFork(world)
  const broken = world.host.intercept('checkpoint', 'before', ({ subject }) => {
    if (subject.id === id) throw new HostFailure('checkpoint_failed', 'simulated', { retryable: false })
  })
  const { state, error } = await world.ended(await ask(world, id, fork, true))
  broken[Symbol.dispose]()
  assert.deepEqual([state, error?.code], ['failed', 'checkpoint_failed'])
  assert.deepEqual([read(world, id), read(world, fork)], [both('of the workspace'), both('of the fork')])
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('the workspace takes over the start-up state of its fork', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const { id, fork } = await withFork(world)
  await world.db
    .updateTable('workspaces')
    .set({ startup: JSON.stringify({ state: 'failed', step: 'x', reason: 'startup_failed' }) })
    .where('id', '=', id)
    .execute()
  await world.db
    .updateTable('workspaces')
    .set({ startup: JSON.stringify({ state: 'ready' }) })
    .where('id', '=', fork)
    .execute()
  await adopted(world, id, fork)
  assert.deepEqual((await world.workspace(id)).startup, { state: 'ready' })
})
