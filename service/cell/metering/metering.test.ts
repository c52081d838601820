import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import pino from 'pino'
import { createWorld, type Process, type World } from '../../../tests/engine/world.ts'
import { LIMITS } from '../../../contract/limits.ts'
import { HostFailure, type MachineStats } from '../host/hostd.ts'
import { closeLedger, collect, sample, sampleStorage } from './sampler.ts'
import { addSamples, addStored, lastCounters } from './store.ts'

const HOUR_MS = 3600_000
const START = new Date('2026-03-01T10:59:50.000Z')
const at = (seconds: number) => new Date(START.getTime() + seconds * 1000)

function counters(workspace_id: string, fence: number, cpu_usec: number, bytes = 0): MachineStats {
  return { workspace_id, epoch: 1, fence, cpu_usec, memory_bytes: 1000, disk_bytes: 10, received_bytes: bytes, sent_bytes: 2 * bytes }
}

async function withMachine(world: World, process: Process, workspace_id: string) {
  return world.until(async () => {
    const found = await process.table.fresh(workspace_id)
    return found?.machine ? found : undefined
  })
}

async function rows(world: World) {
  const all = await world.db.selectFrom('usage_samples').selectAll().orderBy('hour').execute()
  return all.map(({ hour, cpu_usec, memory_byte_ms, disk_byte_ms, rx_bytes, tx_bytes, sampled_ms }) => ({
    hour: hour.toISOString().slice(11, 13),
    cpu_usec,
    memory_byte_ms: Number(memory_byte_ms),
    disk_byte_ms: Number(disk_byte_ms),
    rx_bytes,
    tx_bytes,
    sampled_ms,
  }))
}

test('counters become usage per hour, counted once, despite repeats, late readings, new machines and clock jumps', async () => {
  await using world = await createWorld()
  const { workspace_id: id } = await world.open()
  const add = (stats: MachineStats, seconds: number) => addSamples(world.db, [stats], at(seconds), 30_000)
  await add(counters(id, 7, 500, 1), 0)
  await add(counters(id, 7, 900, 5), 5)
  await add(counters(id, 7, 900, 5), 5) // repeated
  await add(counters(id, 7, 700, 2), 5) // late
  assert.deepEqual(await rows(world), [
    { hour: '10', cpu_usec: 900, memory_byte_ms: 5_000_000, disk_byte_ms: 50_000, rx_bytes: 5, tx_bytes: 10, sampled_ms: 5000 },
  ])
  await add(counters(id, 7, 1000, 6), 15) // the next hour
  await add(counters(id, 9, 40, 1), 20) // another machine counts from zero
  await add(counters(id, 9, 50, 1), 20 + 4 * 3600) // four hours without a cell are not charged
  await add(counters(id, 9, 60, 1), 20) // the clock was set back: the usage must not decrease
  assert.deepEqual(await rows(world), [
    { hour: '10', cpu_usec: 900, memory_byte_ms: 5_000_000, disk_byte_ms: 50_000, rx_bytes: 5, tx_bytes: 10, sampled_ms: 5000 },
    // The disk is charged between the two machines, too.
    { hour: '11', cpu_usec: 150, memory_byte_ms: 10_000_000, disk_byte_ms: 150_000, rx_bytes: 2, tx_bytes: 4, sampled_ms: 10_000 },
    { hour: '15', cpu_usec: 10, memory_byte_ms: 30_000_000, disk_byte_ms: 300_000, rx_bytes: 0, tx_bytes: 0, sampled_ms: 30_000 },
  ])
})

const RUN = '01920000-0000-7000-8000-000000000001'
const sum = async (world: World, column: 'cpu_usec' | 'disk_byte_ms' | 'memory_byte_ms' | 'checkpoint_byte_ms' | 'sampled_ms') =>
  (await world.db.selectFrom('usage_samples').select(column).execute()).reduce((all, row) => all + Number(row[column]), 0)

test('a wall clock that is set does not matter: the monotonic clock of the process measures the time between readings', async () => {
  await using world = await createWorld()
  const { workspace_id: id } = await world.open()
  const add = (wall: number, own: number, run = RUN) =>
    addSamples(world.db, [counters(id, 7, 10)], at(wall), 30_000, { run, monotonic_ms: own * 1000 })
  await add(0, 100)
  await add(-86_400, 110) // set back by a day
  await add(86_400, 120) // set forward by two
  assert.equal(await sum(world, 'sampled_ms'), 20_000)
  await add(86_407, 3, '01920000-0000-7000-8000-000000000002') // another process, whose monotonic clock cannot be compared
  assert.equal(await sum(world, 'sampled_ms'), 27_000)
  await addStored(world.db, [{ workspace_id: id, disk_bytes: null, checkpoint_bytes: 1 }], at(0), { run: RUN, monotonic_ms: 0 })
  await addStored(world.db, [{ workspace_id: id, disk_bytes: null, checkpoint_bytes: 1 }], at(-9999), { run: RUN, monotonic_ms: 5000 })
  assert.equal(await sum(world, 'checkpoint_byte_ms'), 5000)
})

test('the first reading of a machine covers its reported running time, bounded like any other', async () => {
  await using world = await createWorld()
  const { workspace_id: id } = await world.open()
  const ran = (fence: number, ran_ms: number) => addSamples(world.db, [{ ...counters(id, fence, 10), ran_ms }], at(0), 30_000)
  await ran(7, 2000)
  await ran(7, 2000) // repeated
  assert.equal(await sum(world, 'sampled_ms'), 2000)
  await ran(8, 99_000)
  assert.equal(await sum(world, 'sampled_ms'), 32_000)
})

test('a sample belongs to the project that the workspace had when it was taken', async () => {
  await using world = await createWorld()
  const { workspace_id: id } = await world.open()
  const { organization_id, project_id } = await world.workspace(id)
  const add = (cpu_usec: number, seconds: number) => addSamples(world.db, [counters(id, 7, cpu_usec)], at(seconds), 30_000)
  await add(100, 0)
  const other = world.ids.next()
  const project = { id: other, organization_id, name: 'other', slug: 'other', created_at: START }
  await world.db.insertInto('projects').values(project).execute()
  await world.db.updateTable('workspaces').set({ project_id: other }).where('id', '=', id).execute()
  await add(130, 5) // within the same hour
  const taken = await world.db
    .selectFrom('usage_samples')
    .select(['organization_id', 'project_id', 'cpu_usec'])
    .orderBy('cpu_usec')
    .execute()
  assert.deepEqual(taken, [
    { organization_id, project_id: other, cpu_usec: 30 },
    { organization_id, project_id, cpu_usec: 100 },
  ])
})

test('a disk counts without gaps and never twice, with and without a machine', async () => {
  await using world = await createWorld()
  const { workspace_id: id } = await world.open()
  const DISK = 10
  const own = (seconds: number) => ({ run: RUN, monotonic_ms: seconds * 1000 })
  const machine = (fence: number, seconds: number) => addSamples(world.db, [counters(id, fence, 0)], at(seconds), 30_000, own(seconds))
  const stored = (seconds: number, disk_bytes: number | null = DISK) =>
    addStored(world.db, [{ workspace_id: id, disk_bytes, checkpoint_bytes: 7 }], at(seconds), own(seconds))
  await machine(1, 0)
  await machine(1, 15)
  await stored(20, null) // running: the machine's samples include its disk
  await machine(1, 30)
  await stored(320) // suspended since 30
  await stored(620)
  await machine(2, 700) // resumed
  await machine(2, 715)
  await machine(3, 730) // another machine at once
  await stored(920, null)
  assert.equal(await sum(world, 'disk_byte_ms'), 730_000 * DISK)
  assert.equal(await sum(world, 'checkpoint_byte_ms'), 900_000 * 7)
  assert.equal(await sum(world, 'sampled_ms'), 45_000)
  await stored(920 + 86_400) // a day without a cell
  assert.equal(await sum(world, 'checkpoint_byte_ms'), (900_000 + 600_000) * 7)
})

/** Commits the transaction of `first` only when `second` waits for a lock. */
async function overlapping(world: World, first: (db: World['db']) => Promise<unknown>, second: () => Promise<unknown>): Promise<void> {
  let other: Promise<unknown> = Promise.resolve()
  await world.db.transaction().execute(async (tx) => {
    await first(tx)
    other = second()
    await world.until(async () => {
      const waiting = sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      return (await waiting.execute(world.db)).rows.length > 0
    })
  })
  await other
}

test('two overlapping first readings count once, for machines and for storage', async () => {
  await using world = await createWorld()
  const { workspace_id: id } = await world.open()
  const first = { ...counters(id, 7, 10_000_000), ran_ms: 10_000 }
  const read = (db: World['db']) => addSamples(db, [first], at(0), 30_000)
  await overlapping(world, read, () => read(world.db))
  assert.deepEqual([await sum(world, 'cpu_usec'), await sum(world, 'sampled_ms')], [10_000_000, 10_000])
  const stored = (db: World['db'], seconds: number) =>
    addStored(db, [{ workspace_id: id, disk_bytes: 10, checkpoint_bytes: 0 }], at(seconds), { run: RUN, monotonic_ms: seconds * 1000 })
  await stored(world.db, 0)
  const before = await sum(world, 'disk_byte_ms')
  // Both readings cover the same disk for the time since its last reading.
  const machine = () => addSamples(world.db, [{ ...counters(id, 8, 0), ran_ms: 0 }], at(300), 30_000, { run: RUN, monotonic_ms: 300_000 })
  await overlapping(world, (tx) => stored(tx, 300), machine)
  assert.equal((await sum(world, 'disk_byte_ms')) - before, 300_000 * 10)
})

test('storage is sampled in every state until deletion: suspended, hibernated, failed and running with snapshots', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const opened = async () => {
    const { workspace_id, operation_id } = await world.open()
    assert.equal((await world.ended(operation_id)).state, 'succeeded')
    return workspace_id
  }
  const did = async (id: string, kind: string) => assert.equal((await world.ended(await world.operate(id, kind))).state, 'succeeded')
  const [suspended, hibernated, failed, running] = [await opened(), await opened(), await opened(), await opened()]
  await did(suspended, 'suspend')
  await process.parking.hibernate(await withMachine(world, process, hibernated))
  await did(running, 'snapshot')
  await withMachine(world, process, failed)
  world.host.kill(failed)
  await world.until(async () => (await world.workspace(failed)).observed_state === 'failed')
  const { cell_id } = await world.workspace(suspended)
  let seconds = 0
  const clock = { now: () => at(seconds), monotonic_ms: () => seconds * 1000 }
  const context = { cell_id: cell_id ?? '', db: world.db, clock, host: world.host, log: pino({ level: 'silent' }) }
  const both = async (later: number) => {
    seconds = later
    await sampleStorage(context, await sample(context))
  }
  const samples = () => world.db.selectFrom('usage_samples').selectAll().execute()
  await both(0) // the first reading of a machine counts the time that it has run
  const earlier = await samples()
  await both(8)
  const rows = await samples()
  const stored = (id: string) => {
    const sum = (all: typeof rows, column: 'disk_byte_ms' | 'checkpoint_byte_ms') =>
      all.filter(({ workspace_id }) => workspace_id === id).reduce((before, row) => before + Number(row[column]), 0)
    const all = (column: 'disk_byte_ms' | 'checkpoint_byte_ms') => sum(rows, column) - sum(earlier, column)
    // The fake's disks have 1 MiB, its memory images 1,024 bytes.
    return { disk: all('disk_byte_ms') / 2 ** 20 / 1000, memory: all('checkpoint_byte_ms') / 1024 / 1000 }
  }
  assert.deepEqual(stored(suspended), { disk: 8, memory: 8 })
  assert.deepEqual(stored(hibernated), { disk: 8, memory: 0 }) // the memory image is metered as memory
  assert.deepEqual(stored(failed), { disk: 8, memory: 0 })
  assert.deepEqual(stored(running), { disk: 8, memory: 8 })
  const before = rows.filter(({ workspace_id }) => workspace_id === suspended).map(({ disk_byte_ms }) => disk_byte_ms)
  const deletion = { desired_state: 'deleted', observed_state: 'deleting', deleted_at: world.clock.now() } as const
  await world.db.updateTable('workspaces').set(deletion).where('id', '=', suspended).execute()
  await both(16)
  const after = await world.db.selectFrom('usage_samples').select('disk_byte_ms').where('workspace_id', '=', suspended).execute()
  assert.deepEqual(
    after.map(({ disk_byte_ms }) => disk_byte_ms),
    before,
  )
})

test('across suspends, resumes and host restarts, the sum of the samples is the real usage', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const { cell_id } = await world.workspace(workspace_id)
  const context = { cell_id: cell_id ?? '', db: world.db, clock: world.clock, host: world.host, log: pino({ level: 'silent' }) }
  const used = async () => (await rows(world)).reduce((sum, { cpu_usec }) => sum + cpu_usec, 0)
  const measured = async () => (await world.host.stats()).find((one) => one.subject.id === workspace_id)?.cpu_usec ?? 0
  await world.until(async () => (await measured()) > 5000)
  await sample(context)
  const first = await used()
  assert.ok(first >= 5000)
  assert.equal((await world.ended(await world.operate(workspace_id, 'suspend'))).state, 'succeeded')
  await sample(context)
  assert.equal(await used(), first) // no machine, no usage
  world.host.restart()
  assert.equal((await world.ended(await world.operate(workspace_id, 'resume'))).state, 'succeeded')
  await sample(context)
  await sample(context)
  const then = await used()
  assert.ok(then > first && then <= first + (await measured()), `${first}, ${then}`)
})

test('a hibernated machine is metered as running: its time, its disk and its saved memory', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  await process.parking.hibernate(await withMachine(world, process, workspace_id))
  const { cell_id } = await world.workspace(workspace_id)
  const context = { cell_id: cell_id ?? '', db: world.db, clock: world.clock, host: world.host, log: pino({ level: 'silent' }) }
  await sample(context)
  world.clock.advance(10)
  await sample(context)
  const [hour] = await rows(world)
  assert.ok(hour && hour.sampled_ms >= 10_000 && hour.sampled_ms < 12_000, JSON.stringify(hour))
  assert.deepEqual(
    [hour.cpu_usec, hour.memory_byte_ms, hour.disk_byte_ms],
    [0, hour.sampled_ms * 1024, hour.sampled_ms * 2 ** 20], // the fake's checkpoints have 1,024 bytes, its disks 1 MiB
  )
})

test('a saved machine that is not stopped yet counts once', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  using _ = world.host.intercept('stop', 'before', () => {
    throw new HostFailure('internal', 'It is not stopped', { retryable: false })
  })
  await process.parking.hibernate(await withMachine(world, process, workspace_id))
  const { cell_id, residency } = await world.workspace(workspace_id)
  assert.deepEqual([residency, (await world.host.stats()).length], ['hibernated', 1])
  await sample({ cell_id: cell_id ?? '', db: world.db, clock: world.clock, host: world.host, log: pino({ level: 'silent' }) })
  assert.equal((await rows(world)).length, 1)
})

test('samples are dropped after 400 days, and counters of ended machines after 7', async () => {
  await using world = await createWorld()
  const { workspace_id: id } = await world.open()
  const now = world.clock.now()
  const ago = (days: number) => new Date(now.getTime() - days * 24 * HOUR_MS)
  await addSamples(world.db, [counters(id, 1, 10)], ago(LIMITS.usage.sample_days + 1), 30_000)
  await addSamples(world.db, [counters(id, 2, 10)], ago(LIMITS.usage.sample_days - 1), 30_000)
  await addSamples(world.db, [counters(id, 3, 10)], ago(LIMITS.usage.counter_days - 1), 30_000)
  await closeLedger(world)
  await collect({ cell_id: world.ids.next(), db: world.db, clock: world.clock, host: world.host, log: pino({ level: 'silent' }) })
  const kept = await world.db.selectFrom('usage_samples').select('hour').execute()
  const machines = await world.db.selectFrom('usage_counters').select('fence').execute()
  assert.deepEqual([kept.length, machines], [2, [{ fence: 3 }]])
})

test('one pass removes any number of old rows, keeps those of other cells, and finds the last reading by an index', async () => {
  await using world = await createWorld()
  const { workspace_id: id } = await world.open()
  const other = await world.open()
  const cell_id = world.ids.next()
  const now = world.clock.now()
  const old = new Date(now.getTime() - (LIMITS.usage.sample_days + 1) * 24 * HOUR_MS)
  await sql`insert into cells (id, name, endpoint, created_at) values (${cell_id}, 'away', '', ${now})`.execute(world.db)
  await sql`update workspaces set cell_id = ${cell_id} where id = ${other.workspace_id}`.execute(world.db)
  await sql`insert into usage_counters (workspace_id, fence, cpu_usec, rx_bytes, tx_bytes, read_at)
    select w.id, n, 0, 0, 0, ${old}::timestamptz + n * interval '1 second' from (values (${id}::uuid, 5000), (${other.workspace_id}::uuid, 20000)) w(id, most), generate_series(1, w.most) n`.execute(
    world.db,
  )
  await sql`insert into usage_samples (workspace_id, hour, organization_id, project_id, is_open)
    select id, ${old}::timestamptz - n * interval '1 hour', organization_id, project_id, false from workspaces, generate_series(1, 2500) n
    where id = ${id}`.execute(world.db)
  await sql`analyze usage_counters`.execute(world.db)
  const plan = await sql<Record<string, string>>`
    explain select l.* from (values (${id}::uuid)) s(workspace_id), lateral (${lastCounters}) l`.execute(world.db)
  const text = plan.rows.map((row) => row['QUERY PLAN']).join()
  assert.match(text, /usage_counters_newest/)
  assert.doesNotMatch(text, /Sort|Seq Scan/)
  await collect({
    cell_id: world.ids.next(),
    db: world.database.cell,
    clock: world.clock,
    host: world.host,
    log: pino({ level: 'silent' }),
  })
  const { rows: left } = await sql`select workspace_id, count(*)::int as count from usage_counters group by 1`.execute(world.db)
  assert.deepEqual(left, [{ workspace_id: other.workspace_id, count: 20_000 }])
  assert.deepEqual(await world.db.selectFrom('usage_samples').select('hour').execute(), [])
})
