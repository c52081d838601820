import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { sql } from 'kysely'
import type { Asked } from '../../../tests/engine/intentions.ts'
import { AT_ONCE_MS, createWorld, entryOf, type World } from '../../../tests/engine/world.ts'
import { HostFailure } from '../host/hostd.ts'
import { admit } from './admission.ts'
import { nextPassMs } from './runner-state.ts'

const ROOM_FOR_TWO = { capacity: { cpu_millis: 8000, memory_mib: 1024, disk_gib: 100 } }

test('30 opens with capacity for 2: the others wait visibly, in order, and none is lost', async () => {
  await using world = await createWorld(ROOM_FOR_TWO)
  const process = await world.startProcess()
  const opens: { workspace_id: string; operation_id: string }[] = []
  for (let count = 0; count < 30; count += 1) opens.push(await world.open())
  const pending = await world.until(async () => {
    const rows = await Promise.all(opens.map(({ operation_id }) => world.operation(operation_id)))
    const settled = rows.filter(({ state }) => state === 'succeeded').length === 2
    return settled && rows.filter(({ state }) => state === 'capacity_pending').length === 28 && rows
  })
  assert.deepEqual(
    pending.map(({ state }) => state),
    [...Array(2).fill('succeeded'), ...Array(28).fill('capacity_pending')],
  )
  const [, , third] = pending
  assert.ok(third)
  const deadline_at = new Date(third.created_at.getTime() + 900_000)
  assert.deepEqual(
    [third.state_reason, third.deadline_at, third.error?.details?.['deadline_at']],
    ['no_ready_host', deadline_at, deadline_at.toISOString()],
  )
  assert.equal((await world.workspace(opens[2]?.workspace_id ?? '')).pending_reason, 'no_ready_host')
  const transactions = mock.method(process.db, 'transaction')
  await process.engine.runner()?.pass()
  assert.equal(transactions.mock.callCount(), 0)
  transactions.mock.restore()
  // Every suspend releases capacity for the next in the queue.
  for (let index = 0; index < 4; index += 1) {
    const [oldest, next] = [opens[index], opens[index + 2]]
    assert.equal((await world.ended(await world.operate(oldest?.workspace_id ?? '', 'suspend'))).state, 'succeeded')
    assert.equal((await world.ended(next?.operation_id ?? '')).state, 'succeeded')
    assert.equal((await world.workspace(next?.workspace_id ?? '')).pending_reason, null)
  }
  assert.equal((await world.operation(opens[6]?.operation_id ?? '')).state, 'capacity_pending')
})

test('an open that waits says which resource is short, and says it again when that changes', async () => {
  await using world = await createWorld({ capacity: { cpu_millis: 8000, memory_mib: 1024, disk_gib: 20 } })
  const process = await world.startProcess()
  const [first, second] = [await world.open({ resources: { disk_gib: 8 } }), await world.open({ resources: { disk_gib: 8 } })]
  for (const { operation_id } of [first, second]) await world.ended(operation_id)
  const { operation_id } = await world.open({ resources: { disk_gib: 8 } })
  const says = (short: string) =>
    world.until(async () => (await world.operation(operation_id)).error?.details?.['short']?.toString() === short)
  await says('memory_mib,disk_gib')
  await process.parking.hibernate(await entryOf(process, first.workspace_id)) // the hibernated workspace still occupies its disk
  await says('disk_gib')
  await world.ended(await world.operate(first.workspace_id, 'delete'))
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
})

async function waitingLike(world: World, { workspace_id, operation_id }: Asked, count: number): Promise<void> {
  const id = sql`('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
  await sql`insert into workspaces select (jsonb_populate_record(w, jsonb_build_object('id', ${id}))).*
    from workspaces w, generate_series(1, ${count}::int) n where w.id = ${workspace_id}`.execute(world.db)
  await sql`insert into operations select (jsonb_populate_record(o, jsonb_build_object('id', ${id}, 'workspace_id', ${id}, 'subject_id', ${id}))).*
    from operations o, generate_series(1, ${count}::int) n where o.id = ${operation_id}`.execute(world.db)
}

test('a delete begins at once behind any number of opens that wait for capacity, and the oldest open gets the capacity', async () => {
  await using world = await createWorld({ capacity: { cpu_millis: 8000, memory_mib: 512, disk_gib: 100 } })
  const process = await world.startProcess()
  const first = await world.open()
  await world.ended(first.operation_id)
  const second = await world.open()
  await world.until(async () => (await world.operation(second.operation_id)).state === 'capacity_pending')
  await waitingLike(world, second, 2001)
  const deletion = await world.operate(first.workspace_id, 'delete')
  await process.engine.runner()?.pass()
  assert.notEqual((await world.operation(deletion)).attempt, 0)
  assert.equal((await world.ended(deletion)).state, 'succeeded')
  assert.equal((await world.ended('00000000-0000-4000-8000-000000000001')).state, 'succeeded')
  assert.equal((await world.operation(second.operation_id)).state, 'capacity_pending')
})

test('an operation that still waits after 15 minutes fails, and nothing was started', async () => {
  await using world = await createWorld(ROOM_FOR_TWO)
  const process = await world.startProcess()
  const asleep = await world.open()
  await world.ended(asleep.operation_id)
  await world.ended(await world.operate(asleep.workspace_id, 'suspend'))
  const running = [await world.open(), await world.open()]
  for (const { operation_id } of running) await world.ended(operation_id)
  const waiting = {
    open: await world.open(),
    fork: await world.fork(running[0]?.workspace_id ?? ''),
    resume: { workspace_id: asleep.workspace_id, operation_id: await world.operate(asleep.workspace_id, 'resume') },
  }
  const all = Object.values(waiting)
  const states = async () => Promise.all(all.map(async ({ operation_id }) => (await world.operation(operation_id)).state))
  await world.until(async () => (await states()).every((state) => state === 'capacity_pending'))
  const short_of_it_seconds = 120 // leaves the busy computer some of this time
  world.clock.advance(900 - short_of_it_seconds)
  await process.engine.runner()?.pass()
  assert.deepEqual(await states(), ['capacity_pending', 'capacity_pending', 'capacity_pending'])
  world.clock.advance(short_of_it_seconds)
  await process.engine.runner()?.pass()
  for (const { operation_id } of all) {
    const { state, error } = await world.ended(operation_id)
    const { waited_seconds, ...details } = error?.details ?? {}
    assert.ok(Number(waited_seconds) >= 900)
    assert.deepEqual(
      [state, error?.code, error?.retryable, details],
      [
        'failed',
        'capacity_unavailable',
        true,
        {
          reason: 'no_ready_host',
          deadline_seconds: 900,
          required: { cpu_millis: 1000, memory_mib: 512, disk_gib: 4 },
        },
      ],
    )
  }
  const observed = await Promise.all(all.map(async ({ workspace_id }) => world.workspace(workspace_id)))
  assert.deepEqual(
    observed.map((row) => [row.observed_state, row.desired_state, row.pending_reason]),
    [
      ['failed', 'running', null],
      ['failed', 'running', null], // the fork has its copy, which an open restores
      ['suspended', 'suspended', null],
    ],
  )
  assert.equal((await world.host.inventory()).machines.length, 2)
  assert.deepEqual(await world.db.selectFrom('workspace_holds').selectAll().execute(), [])
})

test('an open that exceeds any host is refused at once', async () => {
  await using world = await createWorld(ROOM_FOR_TWO)
  await world.startProcess()
  const { workspace_id, operation_id } = await world.open({ resources: { memory_mib: 2048, cpu_millis: 9000 } })
  const { state, error } = await world.ended(operation_id)
  assert.deepEqual(
    [state, error?.code, error?.retryable, error?.details],
    [
      'failed',
      'invalid_resources',
      false,
      {
        reason: 'exceeds_host_class',
        required: { cpu_millis: 9000, memory_mib: 2048, disk_gib: 4 },
        host_class: ROOM_FOR_TWO.capacity,
        exceeded: ['cpu_millis', 'memory_mib'],
      },
    ],
  )
  assert.equal((await world.workspace(workspace_id)).observed_state, 'failed')
})

test('a machine that is being suspended uses its capacity until it is dead', async () => {
  await using world = await createWorld({ capacity: { cpu_millis: 8000, memory_mib: 512, disk_gib: 100 } })
  await world.startProcess()
  const first = await world.open()
  await world.ended(first.operation_id)
  const stopping = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  using _ = world.host.intercept('stop', 'before', async () => {
    stopping.resolve()
    await go.promise
  })
  await world.operate(first.workspace_id, 'suspend')
  await stopping.promise
  const second = await world.open()
  await world.until(async () => (await world.operation(second.operation_id)).state === 'capacity_pending')
  go.resolve()
  assert.equal((await world.ended(second.operation_id)).state, 'succeeded')
})

test('a machine that is being hibernated uses its capacity until it is dead', async () => {
  await using world = await createWorld({ capacity: { cpu_millis: 8000, memory_mib: 512, disk_gib: 100 } })
  const process = await world.startProcess()
  const first = await world.open()
  await world.ended(first.operation_id)
  const stopping = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  using _ = world.host.intercept('stop', 'before', async () => {
    stopping.resolve()
    await go.promise
  })
  const hibernated = process.parking.hibernate(await entryOf(process, first.workspace_id))
  await stopping.promise
  const second = await world.open()
  await world.until(async () => (await world.operation(second.operation_id)).state === 'capacity_pending')
  go.resolve()
  await hibernated
  assert.equal((await world.ended(second.operation_id)).state, 'succeeded')
})

for (const kind of ['reset', 'restore'])
  test(`${kind} of a hibernated workspace on a full host is refused at once, and leaves it asleep as it was`, async () => {
    await using world = await createWorld({ capacity: { cpu_millis: 8000, memory_mib: 512, disk_gib: 100 } })
    const process = await world.startProcess()
    const sleeper = await world.open()
    await world.ended(sleeper.operation_id)
    const { result } = await world.ended(await world.operate(sleeper.workspace_id, 'snapshot'))
    const input = { checkpoint_id: result?.['checkpoint_id'] }
    world.host.guest(sleeper.workspace_id).memory.set('canary', 'in memory')
    await process.parking.hibernate(await entryOf(process, sleeper.workspace_id))
    const other = await world.open()
    await world.ended(other.operation_id)
    const before = await world.workspace(sleeper.workspace_id)

    const refused = await world.ended(await world.operate(sleeper.workspace_id, kind, { input }))
    assert.deepEqual([refused.state, refused.error?.code, refused.error?.retryable], ['failed', 'capacity_unavailable', true])
    assert.deepEqual(refused.error?.details, {
      reason: 'no_ready_host',
      waited_seconds: 0,
      deadline_seconds: 900,
      required: { cpu_millis: 1000, memory_mib: 512, disk_gib: 0 },
    })
    assert.deepEqual({ ...(await world.workspace(sleeper.workspace_id)), updated_at: null }, { ...before, updated_at: null })
    assert.deepEqual(await world.db.selectFrom('workspace_holds').selectAll().execute(), [])

    await world.ended(await world.operate(other.workspace_id, 'suspend'))
    const { state, error } = await world.ended(await world.operate(sleeper.workspace_id, kind, { input }))
    assert.deepEqual([state, error], ['succeeded', null])
    const { observed_state, ownership_epoch, residency } = await world.workspace(sleeper.workspace_id)
    assert.deepEqual([observed_state, ownership_epoch, residency], ['running', 2, 'resident'])
    assert.equal(world.host.guest(sleeper.workspace_id).memory.get('canary'), undefined)
  })

test('a host without the capacity that was counted for a start is asked again', async () => {
  await using world = await createWorld(ROOM_FOR_TWO)
  await world.startProcess()
  let refused = 0
  using _ = world.host.intercept('start', 'before', () => {
    refused += 1
    return refused > 3 ? Promise.resolve() : Promise.reject(noRoom())
  })
  const { operation_id, workspace_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  assert.equal((await world.workspace(workspace_id)).observed_state, 'running')
})

test('a host without the capacity that was counted is reconciled before the next regular time', async () => {
  await using world = await createWorld(ROOM_FOR_TWO)
  const { engine } = await world.startProcess()
  await world.until(async () => engine.isReady())
  let compared = 0
  const { inventory } = world.host
  world.host.inventory = () => {
    compared += 1
    return inventory.call(world.host)
  }
  using _ = world.host.intercept('start', 'before', () => (compared > 0 ? Promise.resolve() : Promise.reject(noRoom())))
  const { operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
})

test('a host without the capacity that was counted is asked for fifteen minutes before the open fails', async () => {
  await using world = await createWorld(ROOM_FOR_TWO)
  await world.startProcess()
  using _ = world.host.intercept('start', 'before', () => Promise.reject(noRoom()))
  const { operation_id } = await world.open()
  // More attempts than any other failure is allowed: refusals for capacity are not counted.
  const { progress } = await world.until(async () => {
    const row = await world.operation(operation_id)
    return row.attempt > 8 && row
  })
  assert.ok(((progress as { no_room?: number }).no_room ?? 0) >= 8)
  assert.equal((await world.operation(operation_id)).state, 'running')
  world.clock.advance(900)
  const { state, error } = await world.ended(operation_id)
  assert.deepEqual([state, error?.code, error?.retryable], ['failed', 'capacity_unavailable', true])
})

test('a retry that is running schedules no further passes', () => {
  const waiting = new Map([['repeated', { wait_ms: 100, until_ms: 0 }]])
  const ms = (jobs: Map<string, unknown>) => nextPassMs({ waiting, jobs, deadline_at: null }, new Date(0))
  assert.deepEqual([ms(new Map()), ms(new Map([['repeated', {}]]))], [100, 15_000])
})

test('operations that could not be read are read again within seconds', async () => {
  await using world = await createWorld(ROOM_FOR_TWO)
  const process = await world.startProcess()
  const select = process.db.selectFrom.bind(process.db)
  let failures = 1
  mock.method(process.db, 'selectFrom', (table: Parameters<typeof select>[0]) => {
    if (table === 'operations as o' && (failures -= 1) >= 0) throw new Error('Connection terminated unexpectedly')
    return select(table)
  })
  const began_ms = performance.now()
  const { operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  assert.ok(failures < 0)
  assert.ok(performance.now() - began_ms < AT_ONCE_MS)
})

const noRoom = () => new HostFailure('no_capacity', 'There is no room', { retryable: true })

test('a start requests capacity for fifteen minutes, and the whole computer bounds it, processors included', () => {
  const created_at = new Date(0)
  const host = { cpu_millis: 1000, memory_mib: 1000, disk_gib: 10, headroom_mib: 0 }
  const ask = (cpu_millis: number, seconds: number) =>
    admit({ required: { cpu_millis, memory_mib: 1000, disk_gib: 10 }, host, created_at, now: new Date(seconds * 1000) }).kind
  assert.deepEqual([ask(1000, 0), ask(1000, 899.999), ask(1000, 900), ask(1001, 0)], ['ask', 'ask', 'refuse', 'refuse'])
})

test('processors are shared: machines that together have more than the computer all run', async () => {
  await using world = await createWorld({ capacity: { cpu_millis: 2000, memory_mib: 16_384, disk_gib: 100 } })
  await world.startProcess()
  const opens = await Promise.all(Array.from({ length: 9 }, () => world.open({ resources: { cpu_millis: 2000 } })))
  for (const { operation_id } of opens) assert.equal((await world.ended(operation_id)).state, 'succeeded')
})

test('each machine counts with its headroom, and a single machine must fit with it', async () => {
  await using world = await createWorld({ capacity: { cpu_millis: 8000, memory_mib: 1024, disk_gib: 100, headroom_mib: 192 } })
  await world.startProcess()
  const first = await world.open()
  assert.equal((await world.ended(first.operation_id)).state, 'succeeded')
  const second = await world.open()
  await world.until(async () => (await world.operation(second.operation_id)).state === 'capacity_pending')
  assert.equal((await world.ended(await world.operate(first.workspace_id, 'suspend'))).state, 'succeeded')
  assert.equal((await world.ended(second.operation_id)).state, 'succeeded')
  const host = { cpu_millis: 1000, memory_mib: 1000, disk_gib: 10, headroom_mib: 192 }
  const ask = (memory_mib: number) =>
    admit({
      required: { cpu_millis: 1000, memory_mib, disk_gib: 10 },
      host,
      created_at: new Date(0),
      now: new Date(0),
    })
  const [fits, refused] = [ask(808), ask(809)]
  assert.equal(fits.kind, 'ask')
  assert.deepEqual(refused.kind === 'refuse' && refused.error.details, {
    reason: 'exceeds_host_class',
    required: { cpu_millis: 1000, memory_mib: 809, disk_gib: 10 },
    host_class: { cpu_millis: 1000, memory_mib: 808, disk_gib: 10 },
    exceeded: ['memory_mib'],
  })
})
