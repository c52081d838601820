import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld, type World } from '../../../tests/engine/world.ts'
import { readUsageTotals } from '../../core/money/usage/store.ts'
import { readerOf } from '../../db/reader.ts'
import { closeLedger } from './sampler.ts'
import { addPortBytes } from './port-store.ts'
import { addSamples } from './store.ts'

const START = new Date('2026-03-01T10:00:05.000Z')
const at = (seconds: number) => new Date(START.getTime() + seconds * 1000)

async function bytesOf(world: World, workspace_id: string): Promise<[number, number]> {
  const { organization_id } = await world.workspace(workspace_id)
  const scope = { organization_id, project_id: null, subject: { kind: 'workspace', id: workspace_id } } as const
  const { ingress_bytes, egress_bytes } = await readUsageTotals(readerOf(world.db), scope, { from: at(0), to: at(99 * 3600) })
  return [ingress_bytes, egress_bytes]
}

test("port bytes are added to the guest's bytes and stored separately", async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id: id } = await world.open()
  const machine = { workspace_id: id, epoch: 1, fence: 7, cpu_usec: 0, memory_bytes: 0, disk_bytes: 0 }
  await addSamples(process.db, [{ ...machine, received_bytes: 100, sent_bytes: 10 }], at(0), 30_000)
  const visit = { workspace_id: id, received_bytes: 3, sent_bytes: 5000 }
  const unknown = { ...visit, workspace_id: world.ids.next() }
  assert.equal(await addPortBytes(process.db, [visit, unknown, { ...visit, sent_bytes: 1 }], at(1)), 1)
  assert.equal(await addPortBytes(process.db, [], at(1)), 0)
  const rows = await world.db.selectFrom('usage_samples').selectAll().where('workspace_id', '=', id).execute()
  assert.deepEqual(
    rows.map((row) => [row.rx_bytes, row.tx_bytes, row.port_received_bytes, row.port_sent_bytes]),
    [[100, 10, 6, 5001]],
  )
  assert.deepEqual(await bytesOf(world, id), [106, 5011])
})

test('port bytes in a final hour make another entry', async () => {
  await using world = await createWorld()
  const process = await world.startProcess()
  const { workspace_id: id } = await world.open()
  const close = () => closeLedger({ db: process.db, clock: { now: () => at(9 * 3600), monotonic_ms: () => 0 } })
  const visit = (sent_bytes: number) => addPortBytes(process.db, [{ workspace_id: id, received_bytes: 0, sent_bytes }], at(0))
  await visit(70)
  assert.equal(await close(), 1)
  await visit(7)
  assert.deepEqual(await bytesOf(world, id), [0, 77])
  assert.equal(await close(), 1)
  const entries = await world.db.selectFrom('usage_entries').selectAll().orderBy('entry').execute()
  assert.deepEqual(
    entries.map(({ entry, egress_bytes }) => [entry, egress_bytes]),
    [
      [0, 70],
      [1, 7],
    ],
  )
  assert.deepEqual(await bytesOf(world, id), [0, 77])
})
