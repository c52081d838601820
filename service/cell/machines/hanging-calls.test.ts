import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import type { ObservedState } from '../../../contract/states/machine.ts'
import { createWorld, entryOf, type Process, type StartOptions, type World } from '../../../tests/engine/world.ts'
import { HostFailure } from '../host/hostd.ts'
import { workspaceSubject } from '../host/subject.ts'

// Calls fail or hang while an operation waits for capacity. No regular reconcile pass runs.

const IDLE = { running: 0, busy_until: null, last_ended_at: null, commands: [] }
const ON_DEMAND: StartOptions = {
  ask_activity: async () => IDLE,
  park_after: { freeze_after_seconds: 0, hibernate_after_seconds: 3600 },
  comparing: { regular_ms: 3_600_000, late_ms: 500, one_ms: 500 },
}
const roomFor = (machines: number) => ({ capacity: { cpu_millis: 8000, memory_mib: 512 * machines, disk_gib: 1000 } })
const failure = (code: 'internal' | 'no_capacity') => new HostFailure(code, 'simulated', { retryable: true })
const never = () => new Promise<never>(() => undefined)

async function opened(world: World): Promise<string> {
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  return workspace_id
}

async function resting(world: World, process: Process): Promise<string> {
  const id = await opened(world)
  await world.until(async () => (await entryOf(process, id)).machine !== null)
  world.host.guest(id).rest()
  world.clock.advance(5)
  return id
}

async function frozen(world: World, process: Process): Promise<string> {
  const id = await resting(world, process)
  await process.parking.freeze(await entryOf(process, id))
  return id
}

async function hibernated(world: World, process: Process): Promise<string> {
  const id = await frozen(world, process)
  await process.parking.hibernate(await entryOf(process, id))
  assert.equal((await world.workspace(id)).residency, 'hibernated')
  return id
}

function hangOnce(world: World, name: 'inventory' | 'glance' | 'stats', fits: (given: unknown[]) => boolean = () => true) {
  const { host } = world
  const own = host[name].bind(host) as (...given: unknown[]) => Promise<never>
  const calls = { hung: 0 }
  const hanging = (...given: unknown[]) => {
    if (calls.hung > 0 || !fits(given)) return own(...given)
    calls.hung += 1
    return never()
  }
  Object.assign(host, { [name]: hanging })
  return calls
}

function refuseStops(world: World, count: number, when: 'before' | 'after') {
  let left = count
  return world.host.intercept('stop', when, () => {
    if ((left -= 1) >= 0) throw failure('internal')
  })
}

test('an inventory without an answer does not block later reconcile passes', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  await frozen(world, process)
  using _ = refuseStops(world, 1, 'before')
  const calls = hangOnce(world, 'inventory')
  await opened(world)
  assert.equal(calls.hung, 1)
})

test('the ledger learns which machines have ended even if policies cannot be compared, and that pass counts as failed', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  await frozen(world, process)
  using _ = refuseStops(world, 1, 'after') // the machine has ended, but the answer is an error
  const policies = mock.method(process.egress, 'dropMissing', () => {
    throw new Error('policies cannot be compared')
  })
  const told = mock.method(process.room, 'noteReconciled')
  await opened(world)
  assert.ok(policies.mock.callCount() > 0)
  await world.until(async () => told.mock.callCount() > 0)
  assert.ok(told.mock.calls.every((call) => !call.arguments[0]))
  mock.restoreAll()
})

test('a workspace whose files take the host long to remove does not block the repair of others', async () => {
  await using world = await createWorld()
  const process = await world.startProcess(ON_DEMAND)
  const ids = [await opened(world), await opened(world), await opened(world)]
  await process.kill()
  const set = (id: string, observed_state: ObservedState) =>
    world.db.updateTable('workspaces').set({ observed_state }).where('id', '=', id).execute()
  const [before = '', deleting = '', after = ''] = ids
  for (const id of [before, after]) await set(id, 'suspending')
  await set(deleting, 'deleting')
  using _ = world.host.intercept('deleteSubject', 'before', never)
  await world.startProcess(ON_DEMAND)
  const states = await Promise.all(ids.map(async (id) => (await world.workspace(id)).observed_state))
  assert.deepEqual(states, ['running', 'deleting', 'running'])
})

test('the evictor goes on when the host does not report its free capacity', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  await frozen(world, process)
  const calls = hangOnce(world, 'glance')
  await opened(world)
  assert.equal(calls.hung, 1)
})

test('the evictor goes on when the host does not report the use of machines', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  await opened(world)
  for (const { subject } of (await world.host.inventory()).machines) world.host.guest(subject.id).rest()
  const calls = hangOnce(world, 'stats', ([subjects]) => subjects !== undefined) // only the evictor names subjects
  await opened(world)
  assert.equal(calls.hung, 1)
  assert.ok(process.engine.isReady())
})

test('a guest that does not report its commands does not keep other machines from being evicted', async () => {
  await using world = await createWorld(roomFor(2))
  const silent = new Set<string>()
  const ask_activity = async ({ agent_key }: { agent_key: string }) => (silent.has(agent_key) ? never() : IDLE)
  const process = await world.startProcess({ ...ON_DEMAND, ask_activity })
  const [first, second] = [await resting(world, process), await resting(world, process)]
  silent.add((await entryOf(process, first)).machine?.agent_key ?? '')
  await opened(world)
  assert.deepEqual([(await world.workspace(first)).residency, (await world.workspace(second)).residency], ['resident', 'hibernated'])
})

function hasMemoryFor(world: World, machines: number): Disposable {
  const hooks = (['start', 'restore'] as const).map((verb) =>
    world.host.intercept(verb, 'before', async ({ subject }) => {
      const there = (await world.host.inventory()).machines.filter((machine) => machine.subject.id !== subject.id)
      if (there.length >= machines) throw failure('no_capacity')
    }),
  )
  return {
    [Symbol.dispose]() {
      for (const hook of hooks) hook[Symbol.dispose]()
    },
  }
}

test('a machine is evicted for an open that the host keeps refusing although it fits by the ledger', async () => {
  await using world = await createWorld(roomFor(2))
  const process = await world.startProcess(ON_DEMAND)
  const idle = await frozen(world, process)
  using _ = hasMemoryFor(world, 1)
  await opened(world)
  assert.equal((await world.workspace(idle)).residency, 'hibernated')
})

test('a machine is evicted for a wake that the host keeps refusing although it fits by the ledger', async () => {
  await using world = await createWorld(roomFor(2))
  const process = await world.startProcess(ON_DEMAND)
  const [sleeper, idle] = [await hibernated(world, process), await frozen(world, process)]
  using _ = hasMemoryFor(world, 1)
  await process.parking.wake(await entryOf(process, sleeper))
  assert.deepEqual([(await world.workspace(sleeper)).residency, (await world.workspace(idle)).residency], ['resident', 'hibernated'])
})

test('a wake that the host refuses requests a reconcile pass: a machine that no row counts ends, and no other is evicted', async () => {
  await using world = await createWorld(roomFor(2))
  const process = await world.startProcess(ON_DEMAND)
  const [sleeper, idle, deleted] = [await hibernated(world, process), await frozen(world, process), await world.newWorkspace()]
  await world.ended(await world.operate(deleted, 'delete'))
  const machine = { resources: { cpu_millis: 1, memory_mib: 1, disk_gib: 1 }, hostname: 'x', layers: [] }
  const fence = { operation_id: world.ids.next(), step: 'test', epoch: 1, fence: 1_000 }
  await world.db.selectNoFrom((eb) => eb.fn<number>('setval', [eb.val('fences'), eb.val(2_000)]).as('n')).execute()
  await world.host.start({ subject: workspaceSubject(deleted), ...fence, ...machine })
  using _ = hasMemoryFor(world, 2)
  await process.parking.wake(await entryOf(process, sleeper))
  assert.deepEqual([(await world.workspace(sleeper)).residency, (await world.workspace(idle)).residency], ['resident', 'resident'])
  assert.deepEqual((await world.host.inventory()).machines.map(({ subject }) => subject.id).sort(), [sleeper, idle].sort())
})

test('a wake that waits for capacity yields to an operation of its workspace', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  const sleeper = await hibernated(world, process)
  const used = await frozen(world, process)
  using _ = process.table.holdAwake(used, 'call') // the machine can be evicted after its call, so the wake waits for it
  const woken = assert.rejects(process.parking.wake(await entryOf(process, sleeper)))
  await world.until(async () => process.room.waiting().length > 0)
  await world.ended(await world.operate(sleeper, 'suspend'))
  assert.equal((await world.workspace(sleeper)).observed_state, 'suspended')
  await woken
})

test('a guest that a reconcile pass saw paused and that its operation has unpaused is evicted for an open', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  const id = await resting(world, process)
  {
    using _ = world.host.intercept('checkpoint', 'after', async () => {
      await process.engine.watch()?.sweep()
      throw failure('internal')
    })
    assert.equal((await world.ended(await world.operate(id, 'reset'))).state, 'failed')
  }
  assert.deepEqual([(await entryOf(process, id)).machine?.state, (await world.workspace(id)).observed_state], ['running', 'running'])
  await opened(world)
  assert.equal((await world.workspace(id)).residency, 'hibernated')
})

test('a machine that the cell wrongly takes for paused causes a reconcile pass, and is evicted for an open', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  const id = await resting(world, process)
  const [machine] = (await world.host.inventory()).machines
  assert.ok(machine)
  process.table.putMachine({ ...machine, state: 'paused' })
  await opened(world)
  assert.equal((await world.workspace(id)).residency, 'hibernated')
})

test('a machine that the cell does not know causes a reconcile pass, and is evicted for an open', async () => {
  await using world = await createWorld(roomFor(1))
  const process = await world.startProcess(ON_DEMAND)
  const id = await resting(world, process)
  process.table.parkMachine(id, (await entryOf(process, id)).machine?.fence ?? 0)
  await opened(world)
  assert.equal((await world.workspace(id)).residency, 'hibernated')
})
