import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld, type Process, type World } from '../../../tests/engine/world.ts'
import { assertNothingIsLeft } from '../../../tests/engine/invariants.ts'
import { Failure } from '../../lib/fail.ts'
import { HostFailure } from '../host/hostd.ts'
import type { WorkspaceEntry } from './table.ts'

const CANARY = 'in memory'

async function running(world: World, process: Process): Promise<{ id: string; entry(): WorkspaceEntry; hibernate(): Promise<void> }> {
  const { workspace_id: id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  await world.until(async () => (await process.table.fresh(id))?.machine ?? undefined)
  world.host.guest(id).memory.set('canary', CANARY)
  world.host.guest(id).files.set('/f', 'on disk')
  const entry = () => {
    const found = process.table.get(id)
    assert.ok(found)
    return found
  }
  return { id, entry, hibernate: () => process.parking.hibernate(entry()) }
}

const machinesOf = async (world: World) => (await world.host.inventory()).machines
const content = (world: World, id: string) => [world.host.guest(id).memory.get('canary'), world.host.guest(id).files.get('/f')]
const refusal = (code: string, reason: string) => (error: unknown) =>
  error instanceof Failure && error.code === code && error.reason === reason
const ended = async (world: World, id: string, kind: string, input: object = {}) => {
  const operation = await world.ended(await world.operate(id, kind, { input }))
  assert.equal(operation.state, 'succeeded')
  return operation
}

test('a hibernated workspace runs on without a machine, in its epoch, and one restore wakes it with memory and disk', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, entry, hibernate } = await running(world, process)
  const { gone } = entry()
  await hibernate()
  const row = await world.workspace(id)
  assert.deepEqual(
    [row.observed_state, row.residency, row.ownership_epoch, row.disk, (await machinesOf(world)).length],
    ['running', 'hibernated', 1, null, 0],
  )
  assert.deepEqual([process.parking.ready(entry()), gone.aborted], [null, false])
  await Promise.all([process.parking.wake(entry()), process.parking.wake(entry())])
  const machine = process.parking.ready(entry())
  assert.deepEqual([machine?.epoch, machine?.state, content(world, id), gone.aborted], [1, 'running', [CANARY, 'on disk'], false])
  assert.equal(world.host.done.filter(({ verb }) => verb === 'restore').length, 1)
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a frozen machine is hibernated like one that runs', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, entry, hibernate } = await running(world, process)
  await process.parking.freeze(entry())
  assert.equal(entry().machine?.state, 'frozen')
  await hibernate()
  await process.parking.wake(entry())
  assert.deepEqual(content(world, id), [CANARY, 'on disk'])
})

for (const when of ['before', 'after'] as const) {
  test(`one whose stop fails ${when} it is done sleeps all the same, and the next call wakes it`, async () => {
    await using world = await createWorld()
    const process = await world.startProcess()
    const { id, entry, hibernate } = await running(world, process)
    using _ = world.host.intercept('stop', when, ({ step }) => {
      if (step === 'stop') throw new HostFailure('internal', 'hostd failed', { retryable: false })
    })
    await process.parking.freeze(entry())
    await hibernate()
    assert.deepEqual([(await world.workspace(id)).residency, entry().residency, entry().machine], ['hibernated', 'hibernated', null])
    await process.parking.wake(entry())
    assert.deepEqual([process.parking.ready(entry())?.state, content(world, id)], ['running', [CANARY, 'on disk']])
    await process.engine.watch()?.sweep()
    await assertNothingIsLeft(world)
  })
}

test('the second call restores a frozen machine that another process has hibernated', async () => {
  await using world = await createWorld()
  const first = await world.startProcess()
  const { id, entry } = await running(world, first)
  await first.parking.freeze(entry())
  const second = await world.startProcess({ wait: false })
  await second.table.load(id)
  for (const machine of await machinesOf(world)) second.table.putMachine(machine)
  const seen = second.table.get(id)
  assert.ok(seen?.machine)
  await second.parking.hibernate(seen)
  await assert.rejects(first.parking.wake(entry()), refusal('service_unavailable', 'wake_failed'))
  await first.parking.wake(entry())
  assert.deepEqual([first.parking.ready(entry())?.state, content(world, id)], ['running', [CANARY, 'on disk']])
})

test('a call before the commit keeps its machine, and the attempt leaves nothing behind', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, entry, hibernate } = await running(world, process)
  let call: Disposable | undefined
  using _ = world.host.intercept('checkpoint', 'after', () => {
    call = process.table.holdAwake(id, 'call')
  })
  await hibernate()
  assert.deepEqual([process.parking.ready(entry())?.state, (await machinesOf(world))[0]?.state], ['running', 'running'])
  call?.[Symbol.dispose]()
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('an operation before the commit wins: the guest is unpaused, and the operation waits for that', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, hibernate } = await running(world, process)
  let snapshot = ''
  using _ = world.host.intercept('checkpoint', 'after', async ({ step }) => {
    if (step === 'hibernate') snapshot = await world.operate(id, 'snapshot')
  })
  await hibernate()
  assert.equal((await world.ended(snapshot)).state, 'succeeded')
  assert.equal((await world.workspace(id)).residency, 'resident')
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a machine that cannot be saved runs on, and is not retried at once', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { entry, hibernate } = await running(world, process)
  {
    using _ = world.host.intercept('checkpoint', 'before', () => {
      throw new HostFailure('no_space', 'The pool is full', { retryable: true })
    })
    await assert.rejects(hibernate(), /could not be saved/)
  }
  assert.equal(process.parking.ready(entry())?.state, 'running')
  await hibernate()
  assert.equal((await machinesOf(world)).length, 1)
  world.clock.advance(61)
  await hibernate()
  assert.equal((await machinesOf(world)).length, 0)
})

test('a wake from a damaged checkpoint is wake_failed, and the state stays as it is', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, entry, hibernate } = await running(world, process)
  await hibernate()
  world.host.corrupt((await world.workspace(id)).checkpoint_id ?? '')
  await assert.rejects(process.parking.wake(entry()), refusal('service_unavailable', 'wake_failed'))
  const { observed_state, residency } = await world.workspace(id)
  assert.deepEqual([observed_state, residency], ['running', 'hibernated'])
})

test('no workspace wakes while the host is down; the next call after its return wakes it', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, entry, hibernate } = await running(world, process)
  await hibernate()
  world.host.setReachable(false)
  await assert.rejects(process.parking.wake(entry()), refusal('service_unavailable', 'wake_failed'))
  world.host.setReachable(true)
  await process.parking.wake(entry())
  assert.deepEqual(content(world, id), [CANARY, 'on disk'])
})

test('a restore whose answer was lost makes no second machine', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, entry, hibernate } = await running(world, process)
  await hibernate()
  {
    using _ = world.host.intercept('restore', 'after', () => {
      throw new HostFailure('unreachable', 'No answer', { retryable: true })
    })
    await assert.rejects(process.parking.wake(entry()), refusal('service_unavailable', 'wake_failed'))
  }
  await process.parking.wake(entry())
  assert.deepEqual([(await machinesOf(world)).length, content(world, id)], [1, [CANARY, 'on disk']])
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('a hibernated workspace leaves its capacity to others, and gets host_capacity until some is free', async () => {
  await using world = await createWorld({ capacity: { cpu_millis: 8000, memory_mib: 600, disk_gib: 100 } })
  const process = await world.startProcess()
  const { entry, hibernate } = await running(world, process)
  await hibernate()
  const other = await world.open()
  assert.equal((await world.ended(other.operation_id)).state, 'succeeded')
  await assert.rejects(process.parking.wake(entry()), refusal('service_unavailable', 'host_capacity'))
  await ended(world, other.workspace_id, 'suspend')
  await process.parking.wake(entry())
  assert.equal(process.parking.ready(entry())?.state, 'running')
})

test('a wake while an operation holds the workspace is workspace_fenced', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, entry, hibernate } = await running(world, process)
  await hibernate()
  const held = Promise.withResolvers<void>()
  using _ = world.host.intercept('cloneCheckpoint', 'before', () => held.promise)
  const snapshot = await world.operate(id, 'snapshot')
  await assert.rejects(process.parking.wake(entry()), refusal('workspace_busy', 'workspace_fenced'))
  held.resolve()
  assert.equal((await world.ended(snapshot)).state, 'succeeded')
  await process.parking.wake(entry())
  assert.deepEqual(content(world, id), [CANARY, 'on disk'])
})

test('a hibernated workspace is suspended, snapshotted, forked, reset, restored and deleted without being woken', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, hibernate } = await running(world, process)
  await hibernate()
  const { result } = await ended(world, id, 'snapshot')
  assert.equal((await world.workspace(id)).residency, 'hibernated')
  const copy = await world.fork(id)
  assert.equal((await world.ended(copy.operation_id)).state, 'succeeded')
  assert.deepEqual(content(world, copy.workspace_id), [CANARY, 'on disk'])

  await ended(world, id, 'suspend')
  const suspended = await world.workspace(id)
  assert.deepEqual([suspended.observed_state, suspended.residency, suspended.ownership_epoch], ['suspended', 'resident', 2])
  await ended(world, id, 'resume')
  assert.deepEqual(content(world, id), [CANARY, 'on disk'])

  await process.table.fresh(id)
  await hibernate()
  const reset = await ended(world, id, 'reset')
  assert.deepEqual(content(world, id), [undefined, undefined])
  await process.table.fresh(id)
  await hibernate()
  await ended(world, id, 'restore', { checkpoint_id: reset.result?.['recovery_checkpoint_id'] })
  assert.deepEqual(content(world, id), [CANARY, 'on disk'])
  assert.equal(typeof result?.['checkpoint_id'], 'string')
  await process.table.fresh(id)
  await hibernate()
  await process.engine.watch()?.sweep()
  await ended(world, id, 'delete')
  await process.engine.watch()?.sweep()
  await assertNothingIsLeft(world)
})

test('after a restart of the computer hibernated workspaces still run and wake; resident ones are failed', async () => {
  await using world = await createWorld()
  const first = await world.startProcess()
  const { id, hibernate } = await running(world, first)
  const other = await running(world, first)
  await hibernate()
  await first.kill()
  world.host.reboot()
  const second = await world.startProcess()
  assert.deepEqual([(await world.workspace(id)).observed_state, (await world.workspace(other.id)).observed_state], ['running', 'failed'])
  const entry = second.table.get(id)
  assert.ok(entry)
  await second.parking.wake(entry)
  assert.deepEqual(content(world, id), [CANARY, 'on disk'])
})

test('a hint during hibernation wakes the workspace afterwards', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, entry, hibernate } = await running(world, process)
  using _ = world.host.intercept('stop', 'before', ({ step }) => {
    if (step === 'stop') process.parking.hint(entry())
  })
  await hibernate()
  await world.until(async () => process.parking.ready(entry()) !== null)
  assert.deepEqual(content(world, id), [CANARY, 'on disk'])
})
