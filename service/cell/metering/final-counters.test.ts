import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import type { MachineCounters } from '../../../contract/internal/host-inventory.ts'
import type { Subject } from '../../../contract/internal/host-subject.ts'
import { createWorld, type World } from '../../../tests/engine/world.ts'
import { workspaceSubject } from '../host/subject.ts'
import { finalCounters, metered } from './final-counters.ts'
import { addFinal } from './sampler.ts'

const log = pino({ level: 'silent' })
const RESOURCES = { cpu_millis: 500, memory_mib: 128, disk_gib: 1 }

function meterOf(world: World) {
  const final = finalCounters((read) => addFinal(world, read), log)
  return { final, host: metered(world.host, final) }
}

const usedBy = async (world: World, workspace_id: string) =>
  world.db.selectFrom('usage_samples').selectAll().where('workspace_id', '=', workspace_id).executeTakeFirst()

test('a machine that ends before the first reading is metered completely: processor, bytes, memory and time', async () => {
  await using world = await createWorld()
  const { final, host } = meterOf(world)
  await world.startProcess({ host })
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  world.host.guest(workspace_id).rest(5000) // used the same processor time, and uses nothing from here on
  const [used] = await world.host.stats()
  assert.ok(used)
  assert.equal((await world.ended(await world.operate(workspace_id, 'suspend'))).state, 'succeeded')
  await final.flush()
  const hour = await usedBy(world, workspace_id)
  assert.deepEqual([hour?.cpu_usec, hour?.tx_bytes], [used.cpu_usec, used.sent_bytes])
  assert.ok(hour && hour.sampled_ms > 0 && Number(hour.memory_byte_ms) === hour.sampled_ms * used.memory_bytes, JSON.stringify(hour))
})

test('a machine that dies by itself is metered by the counters of its exit event', async () => {
  await using world = await createWorld()
  const { final, host } = meterOf(world)
  await world.startProcess({ host })
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  world.host.guest(workspace_id).rest(5000)
  const [used] = await world.host.stats()
  assert.ok(used)
  world.host.kill(workspace_id)
  await world.until(async () => (await world.workspace(workspace_id)).observed_state === 'failed')
  await final.flush()
  assert.equal((await usedBy(world, workspace_id))?.cpu_usec, used.cpu_usec)
})

test('a machine without an earlier reading counts for the time it ran, and a repeated report counts once', async () => {
  await using world = await createWorld()
  const { workspace_id } = await world.open()
  const read = {
    epoch: 1,
    fence: 5,
    cpu_usec: 9,
    memory_bytes: 1000,
    disk_bytes: 10,
    rx_bytes: 5,
    tx_bytes: 6,
    received_bytes: 1,
    sent_bytes: 2,
    ran_ms: 12_000,
  }
  for (const _ of ['told', 'told again']) await addFinal({ db: world.db, clock: { now: () => new Date(0), monotonic_ms: () => 0 } }, [{ subject: workspaceSubject(workspace_id), ...read }]) // prettier-ignore
  const hour = await usedBy(world, workspace_id)
  assert.deepEqual([hour?.cpu_usec, hour?.sampled_ms, hour?.memory_byte_ms, hour?.disk_byte_ms], [9, 12_000, '12000000', '120000'])
})

test('the usage of an execution is charged to its workspace', async () => {
  await using world = await createWorld()
  const { final, host } = meterOf(world)
  await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  const subject: Subject = { kind: 'execution', id: workspace_id }
  const speak = (step: string) => ({ subject, operation_id: world.ids.next(), step, epoch: 1, fence: 1e9 })
  await host.start({ ...speak('start'), resources: RESOURCES, hostname: 'box', layers: [] })
  world.host.guest(subject).rest(700)
  const used = (await world.host.stats([subject]))[0]
  await host.deleteSubject(speak('delete'))
  await final.flush()
  assert.equal((await usedBy(world, workspace_id))?.cpu_usec, used?.cpu_usec)
})

test('counters wait while they cannot be written, only the newest of each machine, and are written once', async () => {
  const written: number[][] = []
  let away = true
  const final = finalCounters(async (read) => {
    if (away) throw new Error('The database is away')
    written.push(read.map(({ cpu_usec }) => cpu_usec))
  }, log)
  const counters = (fence: number, cpu_usec: number): MachineCounters => ({
    subject: workspaceSubject('w'), epoch: 1, fence, cpu_usec, memory_bytes: 0, disk_bytes: 0, rx_bytes: 0, tx_bytes: 0, received_bytes: 0, sent_bytes: 0, ran_ms: 0,
  }) // prettier-ignore
  final.add(counters(1, 10))
  final.add(counters(2, 20))
  final.add(counters(1, 11))
  await assert.rejects(final.flush(), /away/)
  away = false
  await final.flush()
  await final.flush()
  assert.deepEqual(written, [[20, 11]])
})
