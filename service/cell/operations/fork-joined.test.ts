import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertNothingIsLeft } from '../../../tests/engine/invariants.ts'
import type { Asked } from '../../../tests/engine/intentions.ts'
import { createWorld, type Process, type World } from '../../../tests/engine/world.ts'
import { armFailpoint, FailpointError, type FailpointName } from '../../lib/failpoints.ts'
import { HostFailure } from '../host/hostd.ts'

// Forks that share one capture: decision 256.

async function runningSource(world: World): Promise<string> {
  const { workspace_id, operation_id } = await world.open()
  await world.ended(operation_id)
  world.host.guest(workspace_id).memory.set('canary', 'in memory')
  world.host.guest(workspace_id).files.set('/f', 'on disk')
  return workspace_id
}

function heldCapture(world: World): { reached: Promise<void>; go: () => void } & Disposable {
  const reached = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  const held = world.host.intercept('checkpoint', 'before', async () => {
    reached.resolve()
    await go.promise
  })
  return { reached: reached.promise, go: () => go.resolve(), [Symbol.dispose]: () => held[Symbol.dispose]() }
}

const captures = (world: World) => world.host.done.filter(({ verb }) => verb === 'checkpoint').length

async function statesOf(world: World, asked: readonly Asked[]): Promise<string[]> {
  return Promise.all(asked.map(async ({ operation_id }) => (await world.ended(operation_id)).state))
}

function assertSame(world: World, ...ids: string[]): void {
  for (const id of ids) {
    const { memory, files } = world.host.guest(id)
    assert.deepEqual([memory.get('canary'), files.get('/f')], ['in memory', 'on disk'])
  }
}

/** Reconciles first, because a losing attempt may have left orphans. */
async function assertTidy(world: World, process: Process): Promise<void> {
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
}

test('forks that arrive before the capture commits share it, and each is a workspace of its own', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const source = await runningSource(world)
  using held = heldCapture(world)
  const first = await world.fork(source)
  await held.reached
  const others = [await world.fork(source), await world.fork(source), await world.fork(source), await world.fork(source)]
  held.go()
  assert.deepEqual(await statesOf(world, [first, ...others]), Array(5).fill('succeeded'))
  assert.equal(captures(world), 1)
  assertSame(world, source, first.workspace_id, ...others.map(({ workspace_id }) => workspace_id))
  world.host.guest(first.workspace_id).memory.set('canary', 'changed')
  assertSame(world, source, ...others.map(({ workspace_id }) => workspace_id))
  await assertTidy(world, process)
})

test('simultaneous forks of a suspended workspace leave it suspended', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const source = await runningSource(world)
  await world.ended(await world.operate(source, 'suspend'))
  const forks = [await world.fork(source), await world.fork(source), await world.fork(source)]
  assert.deepEqual(await statesOf(world, forks), Array(3).fill('succeeded'))
  assertSame(world, ...forks.map(({ workspace_id }) => workspace_id))
  assert.equal((await world.workspace(source)).observed_state, 'suspended')
  await assertTidy(world, process)
})

test('when the capturing fork is deleted, the next is handed the source and serves the others', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const source = await runningSource(world)
  using held = heldCapture(world)
  const first = await world.fork(source)
  await held.reached
  const others = [await world.fork(source), await world.fork(source), await world.fork(source)]
  const deletion = await world.operate(first.workspace_id, 'delete')
  held.go()
  assert.equal((await world.ended(deletion)).state, 'succeeded')
  assert.deepEqual(await statesOf(world, [first, ...others]), ['canceled', 'succeeded', 'succeeded', 'succeeded'])
  assertSame(world, source, ...others.map(({ workspace_id }) => workspace_id))
  await assertTidy(world, process)
})

test('a joined fork that is deleted before it is served gets no copy and disturbs no other fork', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const source = await runningSource(world)
  using held = heldCapture(world)
  const first = await world.fork(source)
  await held.reached
  const [gone, kept] = [await world.fork(source), await world.fork(source)]
  const deletion = await world.operate(gone.workspace_id, 'delete')
  assert.equal((await world.ended(deletion)).state, 'succeeded')
  held.go()
  assert.deepEqual(await statesOf(world, [first, gone, kept]), ['succeeded', 'canceled', 'succeeded'])
  assert.equal(captures(world), 1)
  await assertTidy(world, process)
})

test('a source that is deleted ends all forks that wait for its capture', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const source = await runningSource(world)
  using held = heldCapture(world)
  const first = await world.fork(source)
  await held.reached
  const others = [await world.fork(source), await world.fork(source)]
  const deletion = await world.operate(source, 'delete')
  held.go()
  assert.equal((await world.ended(deletion)).state, 'succeeded')
  assert.deepEqual(await statesOf(world, [first, ...others]), Array(3).fill('canceled'))
  await world.until(async () => {
    await process.engine.watch()?.sweep()
    const rows = await Promise.all([first, ...others].map(({ workspace_id }) => world.workspace(workspace_id)))
    return rows.every(({ observed_state, ended_reason }) => observed_state === 'deleted' && ended_reason === 'fork_failed')
  })
})

test('a joined fork that is too small for the memory fails with that reason, and the others are served', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const source = await runningSource(world)
  using held = heldCapture(world)
  const first = await world.fork(source)
  await held.reached
  const small = await world.fork(source, { resources: { memory_mib: 256 } })
  const third = await world.fork(source)
  held.go()
  assert.deepEqual(await statesOf(world, [first, small, third]), ['succeeded', 'failed', 'succeeded'])
  assert.equal((await world.operation(small.operation_id)).error?.code, 'invalid_resources')
  assert.equal((await world.workspace(small.workspace_id)).ended_reason, 'fork_failed')
  await assertTidy(world, process)
})

test('a joined fork whose copy fails captures by itself', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const source = await runningSource(world)
  using held = heldCapture(world)
  let failed = false
  using _ = world.host.intercept('cloneCheckpoint', 'before', () => {
    if (failed) return
    failed = true
    throw new HostFailure('no_space', 'full', { retryable: true })
  })
  const first = await world.fork(source)
  await held.reached
  const second = await world.fork(source)
  held.go()
  assert.deepEqual(await statesOf(world, [first, second]), ['succeeded', 'succeeded'])
  assert.deepEqual([failed, captures(world)], [true, 2])
  assertSame(world, source, first.workspace_id, second.workspace_id)
  await assertTidy(world, process)
})

test('a failed capture fails its fork alone: the next fork takes its own', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const source = await runningSource(world)
  const reached = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  let tries = 0
  using _ = world.host.intercept('checkpoint', 'before', async () => {
    if ((tries += 1) > 1) return
    reached.resolve()
    await go.promise
    throw new HostFailure('no_space', 'full', { retryable: true })
  })
  const first = await world.fork(source)
  await reached.promise
  const second = await world.fork(source)
  go.resolve()
  assert.deepEqual(await statesOf(world, [first, second]), ['failed', 'succeeded'])
  assert.equal((await world.workspace(first.workspace_id)).ended_reason, 'fork_failed')
  assertSame(world, source, second.workspace_id)
  await assertTidy(world, process)
})

for (const point of ['fork.F2', 'fork.F3', 'fork.F4', 'fork.F5', 'fork.F6'] as const satisfies FailpointName[]) {
  for (const mode of ['throw', 'kill -9'] as const) {
    test(`${point}, ${mode}, of the fork that captures: all that joined it succeed, and nothing is left`, async () => {
      await using world = await createWorld()
      let process = await world.startProcess()
      const source = await runningSource(world)
      const joined = Promise.withResolvers<void>()
      const hit = Promise.withResolvers<void>()
      let hits = 0
      using _ = armFailpoint(point, async (name) => {
        if ((hits += 1) > 1) return
        hit.resolve()
        await joined.promise
        if (mode === 'throw') throw new FailpointError(name)
        return new Promise<void>(() => undefined) // a killed process never continues
      })
      const first = await world.fork(source)
      await hit.promise
      const others = [await world.fork(source), await world.fork(source)]
      if (mode === 'kill -9') await process.kill()
      joined.resolve()
      if (mode === 'kill -9') process = await world.startProcess()
      assert.deepEqual(await statesOf(world, [first, ...others]), Array(3).fill('succeeded'))
      assertSame(world, source, first.workspace_id, ...others.map(({ workspace_id }) => workspace_id))
      await assertTidy(world, process)
    })
  }
}
