import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { insertVolume } from '../../../tests/engine/volume-row.ts'
import { createWorld, type World } from '../../../tests/engine/world.ts'
import { depth } from '../../../tests/support/depth.ts'
import { generatorOf, testSeed } from '../../../tests/support/seed.ts'
import { METERS } from '../../../contract/schemas/usage.ts'
import { reconcile } from '../../core/money/usage/reconcile.ts'
import { readUsageTotals } from '../../core/money/usage/store.ts'
import { readerOf } from '../../db/reader.ts'
import type { MachineStats } from '../host/hostd.ts'
import { closeLedger } from './sampler.ts'
import { addPortBytes } from './port-store.ts'
import { addSamples, addStored } from './store.ts'
import { addStoredVolumes } from './volume-store.ts'

interface Machine {
  workspace_id: string
  fence: number
  cpu_usec: number
  received_bytes: number
  sent_bytes: number
}

interface Told {
  cpu_usec: number
  received_bytes: number
  sent_bytes: number
  port_bytes: number
}

const HOUR_MS = 3600_000
const GIB = 2 ** 30
class Killed extends Error {}

async function history(world: World, seed: number, steps: number): Promise<void> {
  const random = generatorOf(seed)
  const roll = (max: number) => Math.floor(random() * max)
  const workspaces = await Promise.all([0, 1].map(async () => (await world.open()).workspace_id))
  const volume_id = await insertVolume(world, workspaces[0] ?? '')
  let [fence, wall_ms, run, monotonic_ms] = [1000, Date.parse('2026-03-01T10:00:05Z'), world.ids.next(), 0]
  const machineOf = (workspace_id: string): Machine => ({
    workspace_id,
    fence: (fence += 1),
    cpu_usec: 0,
    received_bytes: 0,
    sent_bytes: 0,
  })
  let machines = workspaces.map(machineOf)
  const earlier: Machine[] = [] // readings that arrive late or twice
  const last = new Map<string, Machine>()
  const told: Told = { cpu_usec: 0, received_bytes: 0, sent_bytes: 0, port_bytes: 0 }
  const now = () => new Date(wall_ms)
  const clock = { now, monotonic_ms: () => monotonic_ms }
  const statsOf = (one: Machine): MachineStats => ({ ...one, epoch: 1, memory_bytes: GIB / 2, disk_bytes: GIB })
  const read = async (some: Machine[], is_killed = false) => {
    const add = (db: World['db']) => addSamples(db, some.map(statsOf), now(), 30_000, { run, monotonic_ms })
    if (is_killed) {
      await assert.rejects(
        world.db.transaction().execute(async (tx) => {
          await add(tx)
          throw new Killed()
        }),
        Killed,
      )
      return
    }
    await add(world.db)
    for (const one of some) {
      const before = last.get(`${one.fence}`) ?? { ...one, cpu_usec: 0, received_bytes: 0, sent_bytes: 0 }
      const after = { ...one }
      for (const name of ['cpu_usec', 'received_bytes', 'sent_bytes'] as const) {
        after[name] = Math.max(before[name], one[name])
        told[name] += after[name] - before[name]
      }
      last.set(`${one.fence}`, after)
      earlier.push({ ...one })
    }
  }
  for (let step = 0; step < steps; step += 1) {
    for (const one of machines) {
      one.cpu_usec += roll(20e6)
      one.received_bytes += roll(5000)
      one.sent_bytes += roll(3) === 0 ? roll(2 ** 40) : roll(5000)
    }
    monotonic_ms += roll(30_000)
    // The wall clock sometimes jumps by hours in either direction.
    wall_ms += roll(12) === 0 ? (roll(9) - 4) * HOUR_MS : roll(20 * 60_000)
    const kind = roll(15)
    if (kind < 6) await read(machines, kind === 0)
    else if (kind === 6) await read([earlier[roll(earlier.length)] ?? machines[0]].filter((one) => one !== undefined))
    else if (kind === 7) machines = machines.map((one) => (roll(2) === 0 ? one : machineOf(one.workspace_id))) // a reset or a restarted host gives the workspace another machine
    else if (kind === 8) machines.push(machineOf((await world.open()).workspace_id)) // a fork is another workspace
    else if (kind === 9) run = world.ids.next() // another process with its own clock
    else if (kind === 10) {
      await addPortBytes(world.db, [{ workspace_id: workspaces[0] ?? '', received_bytes: step, sent_bytes: 2 * step }], now())
      told.port_bytes += 3 * step
    } else if (kind === 11)
      await addStored(world.db, [{ workspace_id: workspaces[1] ?? '', disk_bytes: null, checkpoint_bytes: GIB }], now(), {
        run,
        monotonic_ms,
      })
    else if (kind === 12) await addStoredVolumes(world.db, [{ volume_id, stored_bytes: roll(9) * GIB }], now(), { run, monotonic_ms })
    else await Promise.all([1, 2].map(() => closeLedger({ db: world.db, clock })))
  }
  await same(world, told, seed)
  wall_ms += 1000 * HOUR_MS
  await closeLedger({ db: world.db, clock })
  await same(world, told, seed)
}

async function same(world: World, told: Told, seed: number): Promise<void> {
  const { rows } = await sql<Told>`
    select coalesce(sum(cpu_usec), 0)::bigint as cpu_usec, coalesce(sum(rx_bytes), 0)::bigint as received_bytes,
      coalesce(sum(tx_bytes), 0)::bigint as sent_bytes, coalesce(sum(port_received_bytes + port_sent_bytes), 0)::bigint as port_bytes
    from usage_samples`.execute(world.db)
  assert.deepEqual(rows[0], told, `BERTH_TEST_SEED=${seed}`)
  const units = await sql<Record<string, number>>`
    select coalesce(sum(cpu_usec / 1000000), 0)::bigint as cpu_seconds, coalesce(sum(usage_gib_seconds(memory_byte_ms)), 0)::bigint as memory_gib_seconds,
      coalesce(sum(usage_gib_seconds(disk_byte_ms + checkpoint_byte_ms)), 0)::bigint as storage_gib_seconds,
      coalesce(sum(tx_bytes + port_sent_bytes), 0)::bigint as egress_bytes, coalesce(sum(rx_bytes + port_received_bytes), 0)::bigint as ingress_bytes,
      (select coalesce(sum(usage_gib_seconds(stored_byte_ms)), 0) from volume_usage_samples)::bigint as volume_storage_gib_seconds,
      coalesce(min(memory_byte_ms), 0) >= 0 as is_positive from usage_samples`.execute(world.db)
  const { is_positive, ...should_be } = units.rows[0] ?? {}
  assert.equal(is_positive, true)
  const { organization_id } = await world.db.selectFrom('workspaces').select('organization_id').executeTakeFirstOrThrow()
  const range = { from: new Date(0), to: new Date('2100-01-01') }
  const ledger = await readUsageTotals(readerOf(world.db), { organization_id, project_id: null, subject: null }, range)
  for (const meter of METERS) assert.equal(ledger[meter], should_be[meter], `${meter}, BERTH_TEST_SEED=${seed}`)
  const { differences } = await reconcile(world.db, new Date(0), range.to)
  assert.deepEqual(differences, [], `BERTH_TEST_SEED=${seed}`)
}

test('counters, samples and ledger agree to the unit, whatever happens to processes, clocks and hosts', async () => {
  const first = testSeed()
  for (let seed = first; seed < first + depth({ short: 1, long: 60 }); seed += 1) {
    await using world = await createWorld()
    await history(world, seed, depth({ short: 150, long: 600 }))
  }
})

test('reconcile finds a changed entry, sum or sample, and names its kind', async () => {
  await using world = await createWorld()
  const { workspace_id } = await world.open()
  const at = new Date('2026-03-01T10:00:05Z')
  const stats = { workspace_id, epoch: 1, fence: 7, cpu_usec: 9e6, memory_bytes: 0, disk_bytes: 0, received_bytes: 5, sent_bytes: 5 }
  await addSamples(world.db, [stats], at, 30_000)
  const now = new Date(at.getTime() + 5 * HOUR_MS)
  await closeLedger({ db: world.db, clock: { now: () => now, monotonic_ms: () => 0 } })
  const kinds = async () =>
    (await reconcile(world.db, at, now)).differences.map(({ kind, meter, found, should_be }) => [kind, meter, found, should_be])
  await world.db.updateTable('usage_counters').set({ read_at: at }).execute()
  const from = new Date(at.getTime() - HOUR_MS)
  assert.deepEqual((await reconcile(world.db, from, now)).differences, [])
  await world.db.updateTable('usage_entries').set({ cpu_seconds: 10 }).execute()
  assert.deepEqual(
    (await reconcile(world.db, from, now)).differences.map(({ kind, meter, found, should_be }) => [kind, meter, found, should_be]),
    [
      ['entries', 'cpu_seconds', '10', '9'],
      ['hours', 'cpu_seconds', '9', '10'],
    ],
  )
  assert.deepEqual(await kinds(), []) // no differences in the requested hours
  await world.db.updateTable('usage_entries').set({ cpu_seconds: 9 }).execute()
  await world.db
    .updateTable('usage_counters')
    .set({ cpu_usec: 9e6 + 1 })
    .execute()
  assert.deepEqual(await kinds(), [['counters', 'cpu_usec', '9000000', '9000001']])
})
