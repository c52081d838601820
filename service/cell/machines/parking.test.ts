import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { sql } from 'kysely'
import pino from 'pino'
import { createWorld, type Process, type World } from '../../../tests/engine/world.ts'
import { Failure } from '../../lib/fail.ts'
import { HostFailure } from '../host/hostd.ts'
import type { GuestActivity } from './activity-query.ts'
import { probe } from '../reconcile/probe.ts'
import { createAgentCallCounter } from './agent-calls.ts'
import { reconcile } from '../reconcile/reconcile.ts'
import { lookAtResidency, residencyClock, type ResidencyContext, type WatchedMachines } from './residency-clock.ts'
import { residencyViewer, type Shown } from './show-residency.ts'
import type { WorkspaceEntry } from './table.ts'
import { workspaceSubject } from '../host/subject.ts'

interface Bed {
  id: string
  pass(seconds: number, meanwhile?: () => void): Promise<void>
  entry(): WorkspaceEntry
  state(): string | undefined
  shown(): Shown
  /** null: no answer. */
  said: { current: Partial<GuestActivity> | null }
  context: ResidencyContext
}

async function bed(world: World, process: Process): Promise<Bed> {
  const { workspace_id: id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  await world.until(async () => (await process.table.fresh(id))?.machine ?? undefined)
  world.host.guest(id).rest()
  const said: Bed['said'] = { current: {} }
  const context: ResidencyContext = {
    db: world.database.cell,
    clock: world.clock,
    host: world.host,
    table: process.table,
    parking: process.parking,
    log: pino({ level: 'silent' }),
    park_after: { freeze_after_seconds: 5, hibernate_after_seconds: 0 },
    ask_activity: async () => said.current && { running: 0, busy_until: null, last_ended_at: null, commands: [], ...said.current },
    questions: createAgentCallCounter(),
    started_at: new Date(0),
  }
  const watched: WatchedMachines = new Map()
  const entry = () => {
    const found = process.table.get(id)
    assert.ok(found)
    return found
  }
  return {
    id,
    said,
    context,
    entry,
    state: () => entry().machine?.state,
    shown: () => residencyViewer(context, watched)(entry(), false, world.clock.now()),
    async pass(seconds, meanwhile = () => undefined) {
      await lookAtResidency(context, watched)
      world.clock.advance(seconds)
      meanwhile()
      await lookAtResidency(context, watched)
    },
  }
}

const real = async (world: World, id: string) => (await world.host.inventory()).machines.find(({ subject }) => subject.id === id)?.state

test('an unused machine is frozen after its seconds and not before, and the next call thaws it', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, pass, entry, state } = await bed(world, process)
  await pass(4)
  assert.deepEqual([state(), await real(world, id)], ['running', 'running'])
  await pass(6)
  assert.deepEqual([state(), await real(world, id), (await world.workspace(id)).observed_state], ['frozen', 'frozen', 'running'])
  assert.equal(process.parking.ready(entry()), null)
  using _ = process.table.holdAwake(id, 'call')
  await Promise.all([process.parking.wake(entry()), process.parking.wake(entry()), process.parking.wake(entry())])
  assert.deepEqual([process.parking.ready(entry())?.state, await real(world, id)], ['running', 'running'])
  assert.equal(world.host.done.filter(({ verb }) => verb === 'thaw').length, 1)
  await pass(60)
  assert.equal(state(), 'running')
})

test('background_seconds of the row or its template delays the freeze, and shows why it is resident until then', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, pass, entry, state, shown } = await bed(world, process)
  const row = (background_seconds: number | null) =>
    world.db.updateTable('workspaces').set({ background_seconds, active_at: world.clock.now() }).where('id', '=', id).execute()
  await row(60)
  await process.table.fresh(id)
  await pass(30)
  const { park_at, ...terms } = shown()
  assert.deepEqual(terms, { state: 'resident', reason: 'busy', park_after_seconds: 60, park_after_by: 'workspace' })
  assert.ok(park_at !== null && park_at > world.clock.now())
  await pass(60)
  assert.deepEqual([state(), shown()], ['frozen', { ...terms, state: 'frozen', reason: null, park_at: null }])
  await process.parking.wake(entry())
  await row(null)
  await sql`update template_versions set settings = jsonb_set(settings, '{defaults,background_seconds}', '90')`.execute(world.db)
  await process.table.fresh(id)
  assert.deepEqual([shown().park_after_seconds, shown().park_after_by], [90, 'template'])
  await pass(60)
  assert.equal(state(), 'running')
  using _ = process.table.holdAwake(id, 'call')
  assert.equal(shown().reason, 'use')
})

test('time in which our own clock stood still parks nothing: everything counts as used from then', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { context, state } = await bed(world, process)
  const tick = residencyClock({ ...context, park_after: { freeze_after_seconds: 5, hibernate_after_seconds: 600 } })
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second += 1) {
      world.clock.advance(1)
      await tick()
    }
  }
  await tick()
  world.clock.set(3600)
  await tick()
  assert.equal(state(), 'running')
  await pass(7)
  assert.equal(state(), 'frozen')
  world.clock.advance(3600)
  await tick()
  await pass(100)
  assert.equal(state(), 'frozen')
})

test('a guest that never reports its commands is parked after a minute of failed queries', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { said, pass, state } = await bed(world, process)
  said.current = null
  for (let unsaid = 1; unsaid < 12; unsaid += 1) {
    await pass(6)
    assert.equal(state(), 'running', String(unsaid))
  }
  said.current = { running: 1 } // one answer resets the count of missing answers
  await pass(6)
  said.current = null
  for (let unsaid = 1; unsaid < 12; unsaid += 1) await pass(6)
  assert.equal(state(), 'running')
  await pass(6)
  assert.equal(state(), 'frozen')
})

test('unused time counts from the end of the last call', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, pass, state } = await bed(world, process)
  await pass(4)
  process.table.holdAwake(id, 'call')[Symbol.dispose]()
  await pass(4)
  assert.equal(state(), 'running')
  await pass(2)
  assert.equal(state(), 'frozen')
})

test('streams, keepalives, commands, processor and network each keep it resident', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, pass, state, said } = await bed(world, process)
  const stream = process.table.holdAwake(id, 'stream')
  await pass(60)
  assert.equal(state(), 'running')
  stream[Symbol.dispose]()

  const keepalive_until = new Date(world.clock.now().getTime() + 100_000)
  await world.db.updateTable('workspaces').set({ keepalive_until }).where('id', '=', id).execute()
  await pass(30)
  assert.equal(state(), 'running')
  world.clock.advance(80)
  said.current = { running: 1 }
  await pass(30)
  assert.equal(state(), 'running')
  said.current = null // no answer: the probe finds out what is wrong
  await pass(30)
  assert.equal(state(), 'running')
  said.current = {}
  process.table.holdAwake(id, 'call')[Symbol.dispose]()
  for (let turn = 0; turn < 3; turn += 1) {
    await pass(6, () => world.host.guest(id).rest(3000)) // milliseconds of processor time
    assert.equal(state(), 'running')
  }
  await pass(6)
  assert.equal(state(), 'frozen')
})

test('a hint thaws it for sixty seconds, expires without a call, and is no activity', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, pass, entry, state } = await bed(world, process)
  await pass(6)
  const active_at = process.table.activity.lastActive(id)
  assert.equal(process.parking.hint(entry()), 'frozen')
  await process.parking.transitionEnded(id)
  assert.equal(state(), 'running')
  assert.equal(process.parking.hint(entry()), 'resident')
  await pass(59)
  assert.equal(state(), 'running')
  await pass(2)
  await pass(6)
  assert.deepEqual([state(), process.table.activity.lastActive(id)], ['frozen', active_at])
  process.parking.hint(entry())
  await process.parking.transitionEnded(id)
  process.table.touch(id, 'tool_call') // the announced call
  await pass(6)
  await pass(6)
  assert.equal(state(), 'frozen')
})

test('a call during a freeze is served by the same machine, thawed', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, pass, entry, state } = await bed(world, process)
  let woken: Promise<void> | undefined
  let held: Disposable | undefined
  using _ = world.host.intercept('freeze', 'before', () => {
    held = process.table.holdAwake(id, 'call')
    assert.equal(process.parking.ready(entry()), null)
    woken = process.parking.wake(entry())
  })
  await pass(6)
  await woken
  await process.parking.wake(entry())
  assert.deepEqual([state(), await real(world, id)], ['running', 'running'])
  held?.[Symbol.dispose]()
})

test('a call, a keepalive or an operation just before a freeze prevents it', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, entry, state } = await bed(world, process)
  using held = process.table.holdAwake(id, 'call')
  await process.parking.freeze(entry())
  held[Symbol.dispose]()
  const keepalive_until = new Date(world.clock.now().getTime() + 1000)
  await world.db.updateTable('workspaces').set({ keepalive_until }).where('id', '=', id).execute()
  await process.parking.freeze(entry())
  await world.db.updateTable('workspaces').set({ keepalive_until: null }).where('id', '=', id).execute()
  const gate = Promise.withResolvers<void>()
  using _ = world.host.intercept('checkpoint', 'before', () => gate.promise)
  const operation_id = await world.operate(id, 'snapshot')
  await process.parking.freeze(entry())
  assert.deepEqual([state(), world.host.done.filter(({ verb }) => verb === 'freeze')], ['running', []])
  gate.resolve()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
})

test('operations on a frozen machine thaw it first, and leave it running', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, pass, state } = await bed(world, process)
  await pass(6)
  assert.equal(state(), 'frozen')
  const snapshot = await world.operate(id, 'snapshot')
  assert.equal((await world.ended(snapshot)).state, 'succeeded')
  await world.until(async () => (await process.table.fresh(id))?.hold === null)
  assert.deepEqual([state(), await real(world, id)], ['running', 'running'])
  await pass(6)
  await pass(6)
  assert.equal(state(), 'frozen')
  const memory = world.host.guest(id).memory
  memory.set('canary', 'kept')
  const suspend = await world.operate(id, 'suspend')
  assert.equal((await world.ended(suspend)).state, 'succeeded')
  const resume = await world.operate(id, 'resume')
  assert.equal((await world.ended(resume)).state, 'succeeded')
  assert.equal(world.host.guest(id).memory.get('canary'), 'kept')
})

test('the freezer file thaws the machine while its host is down', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, pass, entry, state } = await bed(world, process)
  await pass(6)
  const folder = await mkdtemp(path.join(tmpdir(), 'berth-freezer-'))
  try {
    for (const [name, word] of [
      ['cgroup.freeze', '0'],
      ['freezer.state', 'THAWED'],
    ] as const) {
      const file = path.join(folder, name)
      await writeFile(file, '')
      const [machine] = (await world.host.inventory()).machines
      assert.ok(machine)
      process.table.putMachine({ ...machine, freezer_file: file })
      process.table.markMachine(id, machine.fence, 'frozen')
      world.host.setReachable(false)
      await process.parking.wake(entry())
      world.host.setReachable(true)
      assert.deepEqual([await readFile(file, 'utf8'), state()], [word, 'running'])
    }
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('a failed thaw is wake_failed, and the next call tries again', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { pass, entry, state } = await bed(world, process)
  await pass(6)
  world.host.setReachable(false)
  const refused = (error: unknown) => error instanceof Failure && error.code === 'service_unavailable' && error.reason === 'wake_failed'
  await assert.rejects(process.parking.wake(entry()), refused)
  assert.equal(state(), 'frozen')
  world.host.setReachable(true)
  await process.parking.wake(entry())
  assert.equal(state(), 'running')
})

test('a freeze with an unknown outcome counts as done: the next call thaws it', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, pass, entry, state } = await bed(world, process)
  {
    using _ = world.host.intercept('freeze', 'after', () => {
      throw new HostFailure('unreachable', 'No answer', { retryable: true })
    })
    await pass(6)
  }
  assert.equal(state(), 'frozen')
  await process.parking.wake(entry())
  assert.deepEqual([state(), await real(world, id)], ['running', 'running'])
})

test('the probe finds a late freeze, and the clock thaws a machine in use', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, pass, state, context } = await bed(world, process)
  using _ = process.table.holdAwake(id, 'call')
  const { rows } = { rows: await world.db.selectFrom('operations').select('fence').execute() }
  const fence = Math.max(...rows.map((row) => row.fence))
  await world.host.freeze({ subject: workspaceSubject(id), operation_id: world.ids.next(), step: 'late', epoch: 1, fence })
  const { cell_id } = await world.workspace(id)
  const silent = new Map()
  const probing = {
    ...context,
    cell_id: cell_id ?? '',
    ids: world.ids,
    host: world.host,
    ask_alive: async () => false,
    spare_share: () => 0,
  }
  for (let turn = 0; turn < 4; turn += 1) await probe(probing, silent)
  assert.equal(state(), 'frozen')
  await pass(0)
  assert.deepEqual([state(), await real(world, id)], ['running', 'running'])
})

test('another process of the cell finds it frozen, and a reconcile pass does not take it for running', async () => {
  await using world = await createWorld()
  const first = await world.startProcess()
  const { id, pass } = await bed(world, first)
  await pass(6)
  await first.kill()
  const second = await world.startProcess()
  assert.equal(second.table.get(id)?.machine?.state, 'frozen')
  const [machine] = (await world.host.inventory()).machines
  assert.ok(machine)
  second.table.putMachine({ ...machine, state: 'running' }) // as an inventory reports that was read just before
  assert.equal(second.table.get(id)?.machine?.state, 'frozen')
  const { cell_id } = await world.workspace(id)
  const { clock, ids, host } = world
  await reconcile({
    cell_id: cell_id ?? '',
    db: world.db,
    clock,
    ids,
    host,
    table: second.table,
    quarantine_days: 7,
    log: pino({ level: 'silent' }),
  })
  assert.deepEqual([await real(world, id), (await world.workspace(id)).observed_state], ['frozen', 'running'])
})

test('the end of its last command is known while it is frozen', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { id, pass, said, state } = await bed(world, process)
  const last_ended_at = new Date(world.clock.now().getTime() - 1000)
  said.current = { last_ended_at }
  await pass(6)
  assert.equal(state(), 'frozen')
  assert.deepEqual((await world.workspace(id)).busy_until, last_ended_at)
})
