import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { createWorld, type World } from '../../../tests/engine/world.ts'
import { LIMITS } from '../../../contract/limits.ts'
import { HostFailure, type MachineStats } from '../links/hostd.ts'
import { collect, sample } from './sampler.ts'
import { addSamples } from './store.ts'

const HOUR_MS = 3600_000
const START = new Date('2026-03-01T10:59:50.000Z')
const at = (seconds: number) => new Date(START.getTime() + seconds * 1000)

function counters(workspace_id: string, fence: number, cpu_usec: number, bytes = 0): MachineStats {
  return { workspace_id, epoch: 1, fence, cpu_usec, memory_bytes: 1000, disk_bytes: 10, rx_bytes: bytes, tx_bytes: 2 * bytes }
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

test('counters become what each hour used, once, over repeats, late readings, new machines and clock jumps', async () => {
  await using world = await createWorld()
  const { workspace_id: id } = await world.open()
  const add = (stats: MachineStats, seconds: number) => addSamples(world.db, [stats], at(seconds), 30_000)
  await add(counters(id, 7, 500, 1), 0)
  await add(counters(id, 7, 900, 5), 5)
  await add(counters(id, 7, 900, 5), 5) // told twice
  await add(counters(id, 7, 700, 2), 5) // came late
  assert.deepEqual(await rows(world), [
    { hour: '10', cpu_usec: 900, memory_byte_ms: 5_000_000, disk_byte_ms: 50_000, rx_bytes: 5, tx_bytes: 10, sampled_ms: 5000 },
  ])
  await add(counters(id, 7, 1000, 6), 15) // the next hour
  await add(counters(id, 9, 40, 1), 20) // another machine counts from nothing
  await add(counters(id, 9, 50, 1), 20 + 4 * 3600) // four hours without a cell are not charged
  await add(counters(id, 9, 60, 1), 20) // the clock went back: never less than before
  assert.deepEqual(await rows(world), [
    { hour: '10', cpu_usec: 900, memory_byte_ms: 5_000_000, disk_byte_ms: 50_000, rx_bytes: 5, tx_bytes: 10, sampled_ms: 5000 },
    { hour: '11', cpu_usec: 150, memory_byte_ms: 10_000_000, disk_byte_ms: 100_000, rx_bytes: 2, tx_bytes: 4, sampled_ms: 10_000 },
    { hour: '15', cpu_usec: 10, memory_byte_ms: 30_000_000, disk_byte_ms: 300_000, rx_bytes: 0, tx_bytes: 0, sampled_ms: 30_000 },
  ])
})

test('machines are sampled through suspends and resumes and restarts of the host, and the sum is what they ran', async () => {
  await using world = await createWorld()
  await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const { cell_id } = await world.workspace(workspace_id)
  const context = { cell_id: cell_id ?? '', db: world.db, clock: world.clock, host: world.host, log: pino({ level: 'silent' }) }
  const used = async () => (await rows(world)).reduce((sum, { cpu_usec }) => sum + cpu_usec, 0)
  const measured = async () => (await world.host.stats()).find((one) => one.workspace_id === workspace_id)?.cpu_usec ?? 0
  await world.until(async () => (await measured()) > 5000)
  await sample(context)
  const first = await used()
  assert.ok(first >= 5000)
  assert.equal((await world.ended(await world.operate(workspace_id, 'suspend'))).state, 'succeeded')
  await sample(context)
  assert.equal(await used(), first) // no machine, nothing used
  world.host.restart()
  assert.equal((await world.ended(await world.operate(workspace_id, 'resume'))).state, 'succeeded')
  await sample(context)
  await sample(context)
  const then = await used()
  assert.ok(then > first && then <= first + (await measured()), `${first}, ${then}`)
})

test('a hibernated machine is metered as running: its time, its disk and the memory that was saved, and nothing else', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const entry = await world.until(async () => {
    const found = await process.table.fresh(workspace_id)
    return found?.machine ? found : undefined
  })
  await process.parking.hibernate(entry)
  const { cell_id } = await world.workspace(workspace_id)
  const context = { cell_id: cell_id ?? '', db: world.db, clock: world.clock, host: world.host, log: pino({ level: 'silent' }) }
  await sample(context)
  world.clock.advance(10)
  await sample(context)
  const [hour] = await rows(world)
  assert.ok(hour && hour.sampled_ms >= 10_000 && hour.sampled_ms < 12_000, JSON.stringify(hour))
  assert.deepEqual(
    [hour.cpu_usec, hour.memory_byte_ms, hour.disk_byte_ms],
    [0, hour.sampled_ms * 1024, hour.sampled_ms * 2 ** 20], // the fake's checkpoints are of 1,024 bytes, and its disks of a MiB
  )
})

test('a machine that was saved and is not stopped yet counts once', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  using _ = world.host.intercept('stop', 'before', () => {
    throw new HostFailure('internal', 'It is not stopped', { retryable: false })
  })
  await process.parking.hibernate(await world.until(async () => process.table.fresh(workspace_id)))
  const { cell_id, residency } = await world.workspace(workspace_id)
  assert.deepEqual([residency, (await world.host.stats()).length], ['hibernated', 1])
  await sample({ cell_id: cell_id ?? '', db: world.db, clock: world.clock, host: world.host, log: pino({ level: 'silent' }) })
  assert.equal((await rows(world)).length, 1)
})

test('samples go after 400 days and the counters of machines that are gone after 7, nothing earlier', async () => {
  await using world = await createWorld()
  const { workspace_id: id } = await world.open()
  const now = world.clock.now()
  const ago = (days: number) => new Date(now.getTime() - days * 24 * HOUR_MS)
  await addSamples(world.db, [counters(id, 1, 10)], ago(LIMITS.usage_sample_days + 1), 30_000)
  await addSamples(world.db, [counters(id, 2, 10)], ago(LIMITS.usage_sample_days - 1), 30_000)
  await addSamples(world.db, [counters(id, 3, 10)], ago(LIMITS.usage_counter_days - 1), 30_000)
  await collect({ cell_id: '', db: world.db, clock: world.clock, host: world.host, log: pino({ level: 'silent' }) })
  const kept = await world.db.selectFrom('usage_samples').select('hour').execute()
  const machines = await world.db.selectFrom('usage_counters').select('fence').execute()
  assert.deepEqual([kept.length, machines], [2, [{ fence: 3 }]])
})
