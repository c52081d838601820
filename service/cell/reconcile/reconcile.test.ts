import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { sql } from 'kysely'
import { LIMITS } from '../../../contract/limits.ts'
import type { ObservedState } from '../../../contract/states/machine.ts'
import { AT_ONCE_MS, createWorld, entryOf, type Process, type World } from '../../../tests/engine/world.ts'
import { workspaceSubject } from '../host/subject.ts'

async function running(world: World): Promise<string> {
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  return workspace_id
}

const fenced = (world: World, workspace_id: string, epoch: number, fence = 1e9) => ({
  subject: workspaceSubject(workspace_id),
  operation_id: world.ids.next(),
  step: 'test',
  epoch,
  fence,
})

test('a restart of the computer leaves running workspaces failed and suspended ones suspended', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const [resident, asleep] = [await running(world), await running(world)]
  await world.ended(await world.operate(asleep, 'suspend'))
  world.host.reboot()
  await world.until(async () => (await world.workspace(resident)).observed_state === 'failed')
  assert.equal((await world.workspace(asleep)).observed_state, 'suspended')
  assert.equal((await world.ended(await world.operate(asleep, 'resume'))).state, 'succeeded')
  assert.equal((await world.ended(await world.operate(resident, 'open'))).state, 'succeeded')
})

test('a death while no cell ran is found at the next start', async () => {
  await using world = await createWorld()
  const first = await world.startProcess()
  const workspace_id = await running(world)
  await first.kill()
  world.host.kill(workspace_id)
  await world.startProcess()
  assert.equal((await world.workspace(workspace_id)).observed_state, 'failed')
})

test('a new process learns from the host how to reach running machines', async () => {
  await using world = await createWorld()
  const first = await world.startProcess()
  const workspace_id = await running(world)
  // Waits, because the row says running just before the table has the machine.
  const before = await world.until(async () => (await first.table.fresh(workspace_id))?.machine ?? undefined)
  await first.kill()
  const second = await world.startProcess()
  assert.deepEqual(second.table.get(workspace_id)?.machine, before)
  assert.equal(second.table.get(workspace_id)?.template_env['GREETING'], 'hello')
})

test('machines, disks and checkpoints that no row names are removed, and named ones stay', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const [kept, asleep, deleted] = [await running(world), await running(world), await running(world)]
  await world.ended(await world.operate(asleep, 'suspend'))
  await world.ended(await world.operate(deleted, 'delete'))
  await process.kill()
  const machine = { resources: { cpu_millis: 1, memory_mib: 1, disk_gib: 1 }, hostname: 'x', layers: [] }
  for (const id of [deleted, asleep]) await world.host.start({ ...fenced(world, id, 7, 10), ...machine })
  await world.host.checkpoint({ ...fenced(world, kept, 1, 10), checkpoint_id: 'unnamed', then: 'paused' })
  // The rows have the fences of these attempts, so the files of the attempts are garbage.
  await world.db.updateTable('operations').set({ fence: 10 }).execute()
  await world.db
    .insertInto('workspace_holds')
    .values({ workspace_id: kept, operation_id: await lastOperation(world, kept), gate: 'closed' })
    .execute()
  for (let count = 0; count < 20; count += 1)
    await world.db.selectNoFrom((eb) => eb.fn<number>('nextval', [eb.val('fences')]).as('n')).execute()
  await world.startProcess()
  const { machines, files } = await world.host.inventory()
  assert.deepEqual(
    machines.map(({ subject, state }) => [subject.id, state]),
    [[kept, 'running']],
  )
  const rows = await Promise.all([kept, asleep].map((id) => world.workspace(id)))
  assert.deepEqual(
    files.map(({ subject, disks, checkpoints }) => [subject.id, disks, checkpoints.map(({ checkpoint_id }) => checkpoint_id)]).sort(),
    [
      [kept, [rows[0]?.disk], []],
      [asleep, [], [rows[1]?.checkpoint_id]],
    ].sort(),
  )
  assert.deepEqual(await world.db.selectFrom('workspace_holds').selectAll().execute(), [])
})

async function lastOperation(world: World, workspace_id: string): Promise<string> {
  const { id } = await world.db.selectFrom('operations').select('id').where('workspace_id', '=', workspace_id).executeTakeFirstOrThrow()
  return id
}

test('states that only an operation may leave are settled when no operation is left', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const ids = [await running(world), await running(world), await running(world)]
  const [suspending = '', resuming = '', deleting = ''] = ids
  await world.ended(await world.operate(resuming, 'suspend'))
  await process.kill()
  const set = (id: string, observed_state: ObservedState) =>
    world.db.updateTable('workspaces').set({ observed_state }).where('id', '=', id).execute()
  await set(suspending, 'suspending')
  await set(resuming, 'resuming')
  await set(deleting, 'deleting')
  const untaken = await world.newWorkspace()
  await world.startProcess()
  const states = await Promise.all([...ids, untaken].map(async (id) => (await world.workspace(id)).observed_state))
  assert.deepEqual(states, ['running', 'suspended', 'deleted', 'failed'])
})

test('of two processes one acts, and the other takes over when it is gone', async () => {
  await using world = await createWorld()
  const first = await world.startProcess()
  const second = await world.startProcess({ wait: false })
  await running(world)
  assert.deepEqual([first.engine.isReady(), second.engine.isReady()], [true, false])
  await first.kill()
  await second.engine.ready
  await running(world)
  const attempts = await world.db.selectFrom('operations').select('attempt').execute()
  assert.deepEqual(
    attempts.map(({ attempt }) => attempt),
    [1, 1],
  )
})

test('a machine that another process has parked and woken is not taken for dead by the process that comes back', async () => {
  await using world = await createWorld()
  const first = await world.startProcess()
  const workspace_id = await running(world)
  const before = await first.table.load(workspace_id)
  const second = await world.startProcess({ wait: false })
  // Ends the connection, as the server does when a process stalls for too long.
  await sql`select pg_terminate_backend(pid) from pg_locks join pg_database on oid = database
    where locktype = 'advisory' and granted and datname = current_database()`.execute(world.db)
  await second.engine.ready
  await world.until(async () => !first.engine.isReady())
  await second.parking.hibernate(await entryOf(second, workspace_id))
  await second.parking.wake(await entryOf(second, workspace_id))
  const woken = (await entryOf(second, workspace_id)).machine
  assert.notEqual(woken?.fence, before?.machine?.fence)
  await second.kill()
  await world.until(async () => first.engine.isReady())
  assert.deepEqual([before?.gone.aborted, first.table.get(workspace_id)?.machine], [false, woken])
})

test('a change reported by NOTIFY is in the table at once, and not with the next reconcile pass', async () => {
  await using world = await createWorld()
  const { table } = await world.startProcess()
  const workspace_id = await running(world)
  const entry = await table.load(workspace_id)
  await world.db
    .updateTable('workspaces')
    .set({ deleted_at: world.clock.now(), desired_state: 'deleted' })
    .where('id', '=', workspace_id)
    .execute()
  const began_ms = performance.now()
  await world.until(async () => table.get(workspace_id)?.deleted_at !== null)
  assert.ok(performance.now() - began_ms < AT_ONCE_MS)
  assert.deepEqual([entry?.gone.aborted, entry?.gone.reason], [true, 'deleted'])
})

test('one reconcile pass removes a bounded number, and the next goes on', async () => {
  await using world = await createWorld()
  const machine = { resources: { cpu_millis: 1, memory_mib: 1, disk_gib: 1 }, hostname: 'x', layers: [] }
  const strangers = Array.from({ length: LIMITS.workspace.removals_per_sweep_max + 3 }, () => world.ids.next())
  for (const id of strangers) await world.host.start({ ...fenced(world, id, 1, 1), ...machine })
  const process = await world.startProcess()
  assert.equal((await world.host.inventory()).machines.length, 3)
  await process.engine.watch()?.sweep()
  assert.equal((await world.host.inventory()).machines.length, 0)
})

async function lives(world: World, process: Process, workspace_id: string): Promise<void> {
  const { observed_state, disk } = await world.workspace(workspace_id)
  const machine = (await world.host.inventory()).machines.find((one) => one.subject.id === workspace_id)
  assert.deepEqual([observed_state, disk], ['running', machine?.disk])
  assert.equal((await entryOf(process, workspace_id)).machine?.fence, machine?.fence)
}

test('a workspace that is hibernated and woken during a reconcile pass is not taken for dead', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const workspace_id = await running(world)
  const { inventory } = world.host
  let asked = 0
  const taken = mock.method(world.host, 'inventory', async () => {
    asked += 1
    await process.parking.hibernate(await entryOf(process, workspace_id))
    const found = await inventory()
    await process.parking.wake(await entryOf(process, workspace_id))
    return found
  })
  await process.engine.watch()?.sweep()
  taken.mock.restore()
  assert.equal(asked, 1)
  await lives(world, process, workspace_id)
  await process.engine.watch()?.sweep()
  await lives(world, process, workspace_id)
})

test("a late report of a death does not end the workspace's new machine of the same epoch", async () => {
  await using world = await createWorld()
  const { events } = world.host
  const told = Promise.withResolvers<void>()
  const late = mock.method(world.host, 'events', async function* (after: number, signal: AbortSignal) {
    for await (const event of events(after, signal)) {
      await told.promise
      yield event
    }
  })
  const process = await world.startProcess()
  late.mock.restore()
  const [workspace_id, dead] = [await running(world), await running(world)]
  {
    using _ = world.host.intercept('stop', 'before', () => world.host.kill(workspace_id))
    await process.parking.hibernate(await entryOf(process, workspace_id))
  }
  await process.parking.wake(await entryOf(process, workspace_id))
  world.host.kill(dead) // events come in order: when this one is handled, the earlier one was handled too
  told.resolve()
  await world.until(async () => (await world.workspace(dead)).observed_state === 'failed')
  await lives(world, process, workspace_id)
})
