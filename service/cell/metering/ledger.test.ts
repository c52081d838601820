import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { sql } from 'kysely'
import { insertVolume } from '../../../tests/engine/volume-row.ts'
import { createWorld, type World } from '../../../tests/engine/world.ts'
import { generatorOf, testSeed } from '../../../tests/support/seed.ts'
import { METERS, type Units } from '../../../contract/schemas/usage.ts'
import { periodOf } from '../../core/money/usage/period.ts'
import { readUsage, readUsageTotals } from '../../core/money/usage/store.ts'
import { readerOf } from '../../db/reader.ts'
import type { MachineStats } from '../host/hostd.ts'
import { judgeAllowances } from './allowances.ts'
import { closeLedger } from './sampler.ts'
import { addPortBytes } from './port-store.ts'
import { addSamples, addStored, dropOldSamples } from './store.ts'
import { addStoredVolumes } from './volume-store.ts'

const GIB = 2 ** 30
const START = new Date('2026-03-01T10:00:05.000Z')
const at = (seconds: number) => new Date(START.getTime() + seconds * 1000)
const HOUR = 3600
const log = pino({ level: 'silent' })

function counters(workspace_id: string, fence: number, cpu_usec: number, bytes = 0): MachineStats {
  return { workspace_id, epoch: 1, fence, cpu_usec, memory_bytes: GIB / 2, disk_bytes: GIB, received_bytes: bytes, sent_bytes: 2 * bytes }
}

const closeAt = ({ db }: World, seconds: number) => closeLedger({ db, clock: { now: () => at(seconds), monotonic_ms: () => 0 } })

async function ownerOf(world: World, workspace_id: string) {
  const { organization_id, project_id } = await world.workspace(workspace_id)
  return { organization_id, project_id, subject: null }
}

async function entries(world: World) {
  const all = await world.db.selectFrom('usage_entries').selectAll().orderBy('hour').orderBy('subject_kind').orderBy('entry').execute()
  return all.map((row) => [row.hour.toISOString().slice(11, 13), row.entry, ...METERS.map((meter) => row[meter])])
}

test('an hour becomes final two hours after its end, in whole units; later usage makes another entry', async () => {
  await using world = await createWorld()
  const { workspace_id: id } = await world.open()
  const add = (cpu_usec: number, seconds: number) => addSamples(world.db, [counters(id, 7, cpu_usec, 5)], at(seconds), 30_000)
  await add(0, 0)
  await add(2_900_000, 5)
  assert.equal(await closeAt(world, 3 * HOUR - 10), 0) // 13:00 is not over
  assert.equal(await closeAt(world, 3 * HOUR), 1)
  assert.equal(await closeAt(world, 3 * HOUR), 0)
  // 5 s of half a GiB are 2 whole units. The disk is twice as large as the memory.
  const first = ['10', 0, 2, 2, 5, 10, 5, 0]
  assert.deepEqual(await entries(world), [first])
  await add(4_100_000, 10) // the clock was set back
  assert.equal(await closeAt(world, 3 * HOUR), 1)
  assert.deepEqual(await entries(world), [first, ['10', 1, 2, 3, 5, 0, 0, 0]])
  assert.deepEqual(
    (await world.db.selectFrom('usage_hours').selectAll().execute()).map(({ cpu_seconds }) => cpu_seconds),
    [4],
  )
})

test('volumes have entries too, and a sample without an entry is never dropped', async () => {
  await using world = await createWorld()
  const { workspace_id } = await world.open()
  const volume_id = await insertVolume(world, workspace_id)
  const read = [{ volume_id, stored_bytes: 3 * GIB }]
  for (const seconds of [0, 60]) await addStoredVolumes(world.db, read, at(seconds), { run: world.ids.next(), monotonic_ms: 0 })
  await addSamples(world.db, [counters(workspace_id, 1, 1)], at(0), 30_000)
  assert.equal(await dropOldSamples(world.db, world.ids.next(), at(99 * HOUR), at(0)), 0)
  assert.equal(await closeAt(world, 3 * HOUR), 2)
  assert.deepEqual(await entries(world), [['10', 0, 0, 0, 0, 0, 0, 180]]) // the workspace itself used no whole unit
  assert.equal(await dropOldSamples(world.db, world.ids.next(), at(99 * HOUR), at(0)), 1)
})

test('concurrent closings write every entry once', async () => {
  await using world = await createWorld()
  const ids = await Promise.all(Array.from({ length: 6 }, async () => (await world.open()).workspace_id))
  for (let hour = 0; hour < 30; hour += 1) {
    await addSamples(
      world.db,
      ids.map((id) => counters(id, 1, (hour + 1) * 7_000_000)),
      at(hour * HOUR),
      30_000,
    )
  }
  const closed = await Promise.all([closeAt(world, 99 * HOUR), closeAt(world, 99 * HOUR), closeAt(world, 99 * HOUR)])
  assert.equal(
    closed.reduce((sum, count) => sum + count),
    180,
  )
  const { count } = await world.db
    .selectFrom('usage_entries')
    .select((e) => e.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  assert.equal(count, 180)
  const scope = await ownerOf(world, ids[0] ?? '')
  const used = await readUsageTotals(readerOf(world.db), scope, { from: at(0), to: at(99 * HOUR) })
  assert.equal(used.cpu_seconds, 180 * 7)
})

test('ledger plus open hours equals the sum of the samples, after any history of readings and closings', async () => {
  await using world = await createWorld()
  const random = generatorOf(testSeed())
  const ids = await Promise.all([0, 1, 2].map(async () => (await world.open()).workspace_id))
  const used = new Map(ids.map((id) => [id, 0]))
  let now = 0
  for (let step = 0; step < 300; step += 1) {
    const id = ids[Math.floor(random() * ids.length)] ?? ''
    now += Math.floor((random() - 0.2) * 4000) // the clock sometimes goes back
    if (random() < 0.15) await closeAt(world, now)
    else if (random() < 0.2)
      await addStored(world.db, [{ workspace_id: id, disk_bytes: null, checkpoint_bytes: GIB }], at(now), {
        run: ids[0] ?? '',
        monotonic_ms: step * 9e5,
      })
    else if (random() < 0.2) await addPortBytes(world.db, [{ workspace_id: id, received_bytes: step, sent_bytes: 2 * step }], at(now))
    else {
      used.set(id, (used.get(id) ?? 0) + Math.floor(random() * 3e6))
      await addSamples(world.db, [counters(id, 1, used.get(id) ?? 0, step)], at(now), 30_000)
    }
  }
  const { rows } = await sql<Record<string, number>>`
    select sum(cpu_usec / 1000000)::bigint as cpu_seconds, sum(usage_gib_seconds(memory_byte_ms))::bigint as memory_gib_seconds,
      sum(usage_gib_seconds(disk_byte_ms + checkpoint_byte_ms))::bigint as storage_gib_seconds, sum(tx_bytes + port_sent_bytes)::bigint as egress_bytes,
      sum(rx_bytes + port_received_bytes)::bigint as ingress_bytes, 0 as volume_storage_gib_seconds from usage_samples`.execute(world.db)
  const scope = await ownerOf(world, ids[0] ?? '')
  const range = { from: new Date(0), to: new Date('2100-01-01') }
  const reads = readerOf(world.db)
  assert.deepEqual({ ...(await readUsageTotals(reads, scope, range)) }, rows[0])
  const by_day = await readUsage(reads, scope, range, 'day')
  const by_subject = await Promise.all(ids.map((id) => readUsageTotals(reads, { ...scope, subject: { kind: 'workspace', id } }, range)))
  for (const meter of METERS) {
    const sum = (all: Units[]) => all.reduce((total, units) => total + units[meter], 0)
    assert.deepEqual([sum(by_day), sum(by_subject)], [rows[0]?.[meter], rows[0]?.[meter]], meter)
  }
  await closeAt(world, now + 1e8)
  assert.deepEqual({ ...(await readUsageTotals(reads, scope, range)) }, rows[0])
  assert.deepEqual(await world.db.selectFrom('usage_samples').select('hour').where('is_open', '=', true).execute(), [])
})

test("a used-up allowance refuses starts until it is raised or a new period begins; an operator's state stays", async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id: id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const { organization_id } = await ownerOf(world, id)
  const { cell_id } = await world.workspace(id)
  const plan = (cpu_hours: number | null) => world.db.updateTable('plans').set({ cpu_hours }).execute()
  const said = async () =>
    world.db
      .selectFrom('organizations')
      .select(['allowance_exhausted', 'allowance'])
      .where('id', '=', organization_id)
      .executeTakeFirstOrThrow()
  const judged = (now: Date) =>
    judgeAllowances({ cell_id: cell_id ?? '', db: process.db, clock: { now: () => now, monotonic_ms: () => 0 }, ids: world.ids, log })
  const now = world.clock.now()
  await plan(1)
  await addSamples(world.db, [counters(id, 900, 3599e6)], now, 30_000)
  assert.deepEqual([await judged(now), (await said()).allowance_exhausted], [[], null])
  await addSamples(world.db, [counters(id, 900, 3600e6)], now, 30_000)
  assert.deepEqual([await judged(now), (await said()).allowance_exhausted], [[organization_id], 'allowance_used'])
  assert.deepEqual((await said()).allowance, {
    exhausted: [{ allowance: 'cpu_hours', used_meter_units: 3600, included_meter_units: 3600 }],
    resets_at: periodOf(now).ends_at.toISOString(),
    spend_cap: null,
    judged: true,
  })
  await plan(2)
  assert.deepEqual([await judged(now), (await said()).allowance_exhausted], [[organization_id], null])
  await plan(1)
  await judged(now)
  assert.deepEqual([await judged(periodOf(now).ends_at), (await said()).allowance_exhausted], [[organization_id], null])
  await judged(now)
  await plan(null)
  assert.deepEqual([await judged(now), (await said()).allowance_exhausted], [[organization_id], null])
  await world.db.updateTable('organizations').set({ allowance_exhausted: 'overage_paused', allowance: null }).execute()
  assert.deepEqual([await judged(now), (await said()).allowance_exhausted], [[], 'overage_paused'])
})

test('overage continues until its cap, and a raised cap or a payment lets it continue', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id: id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const { organization_id } = await ownerOf(world, id)
  const cell_id = (await world.workspace(id)).cell_id ?? ''
  const now = world.clock.now()
  const reason = async () => {
    await judgeAllowances({ cell_id, db: process.db, clock: { now: () => now, monotonic_ms: () => 0 }, ids: world.ids, log })
    const row = await world.db
      .selectFrom('organizations')
      .select('allowance_exhausted')
      .where('id', '=', organization_id)
      .executeTakeFirstOrThrow()
    return row.allowance_exhausted
  }
  const cap = (spend_cap_minor: number) => world.db.updateTable('spend_policies').set({ spend_cap_minor }).execute()
  await world.db.updateTable('plans').set({ cpu_hours: 1, currency: 'EUR', price_minor: 5000, cpu_hour_minor: 100 }).execute()
  await world.db
    .insertInto('spend_policies')
    .values({ organization_id, version: 1, overage_enabled: true, spend_cap_minor: 200, enabled_in: now, changed_at: now })
    .execute()
  const use = (hours: number) => addSamples(world.db, [counters(id, 900, hours * 3600e6)], now, 30_000)
  await use(2)
  assert.equal(await reason(), null)
  await use(50) // far beyond the cap between two readings
  assert.equal(await reason(), 'spend_cap_reached')
  await cap(5000)
  assert.equal(await reason(), null)
  await world.db.updateTable('organizations').set({ refuses_starts: 'payment_past_due' }).where('id', '=', organization_id).execute()
  assert.equal(await reason(), 'overage_paused')
  await world.db.updateTable('organizations').set({ refuses_starts: null }).where('id', '=', organization_id).execute()
  assert.equal(await reason(), null)
})
