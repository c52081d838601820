import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld } from '../../tests/engine/world.ts'
import { addSamples } from '../cell/metering/store.ts'
import { closeLedger } from '../cell/metering/sampler.ts'
import { ofUsage, readUsageFacts } from './doctor-usage.ts'

const HOUR_MS = 3600_000
const NOW = new Date('2031-03-02T12:00:00Z')
const BEFORE = new Date('2031-03-02T05:00:05Z')

test('the doctor confirms that ledger, samples and counters agree, and names the first difference', async () => {
  await using world = await createWorld()
  const { db } = world
  const { workspace_id: id } = await world.open()
  const stats = { workspace_id: id, epoch: 1, fence: 7, cpu_usec: 9e6, memory_bytes: 0, disk_bytes: 0, received_bytes: 5, sent_bytes: 6 }
  await addSamples(db, [stats], BEFORE, 30_000)
  await closeLedger({ db, clock: { now: () => NOW, monotonic_ms: () => 0 } })
  await db.updateTable('usage_counters').set({ read_at: NOW }).execute()
  const there = { subject: { kind: 'workspace' as const, id }, fence: 7, cpu_usec: 9e6, received_bytes: 5, sent_bytes: 6 }
  const said = async (host = [there], now = NOW) =>
    ofUsage(await readUsageFacts(db, NOW), host, now).map(({ level, text }) => `${level} ${text}`)
  assert.deepEqual(await said(), ["ok Ledger, samples and counters are the same; 1 machines' counters were read of late"])
  assert.deepEqual(await said([{ ...there, cpu_usec: 10e6 }, { ...there, fence: 8, cpu_usec: 0 }]), await said([there, there])) // prettier-ignore
  const more = '; npm run admin -- usage reconcile names them all'
  assert.deepEqual(await said([{ ...there, sent_bytes: 4 }]), [
    `wrong counters of ${id}: sent_bytes was read as 6, and its machine has 4${more}`,
  ])
  assert.deepEqual(await said([there], new Date(NOW.getTime() + 121_000)), [`wrong counters of ${id} were read 121 s ago${more}`])
  await db.updateTable('usage_entries').set({ cpu_seconds: 10 }).execute()
  assert.deepEqual(await said(), [`wrong entries of ${id}: cpu_seconds is 10 and should be 9 and 1 more${more}`])
})

test('the doctor reports old samples that no cell has closed', async () => {
  await using world = await createWorld()
  const { workspace_id } = await world.open()
  const stats = { workspace_id, epoch: 1, fence: 7, cpu_usec: 9e6, memory_bytes: 0, disk_bytes: 0, received_bytes: 5, sent_bytes: 6 }
  await addSamples(world.db, [stats], new Date(NOW.getTime() - 30 * HOUR_MS), 30_000)
  const findings = ofUsage(await readUsageFacts(world.db, NOW), null, NOW)
  assert.deepEqual(
    findings.map(({ level, text }) => [level, text]),
    [
      ['ok', "Ledger, samples and counters are the same; 0 machines' counters were read of late"],
      ['wrong', '1 samples wait to become entries for more than 26 hours: no cell closes them'],
    ],
  )
})
