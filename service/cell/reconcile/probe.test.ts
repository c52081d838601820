import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { createWorld, type World } from '../../../tests/engine/world.ts'
import { probe, type ProbeContext } from './probe.ts'
import { workspaceSubject } from '../host/subject.ts'

async function running(
  world: World,
): Promise<{ context: ProbeContext; mute: Set<string>; id: string; look(times: number): Promise<void> }> {
  const process = await world.startProcess()
  const { workspace_id: id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  await world.until(async () => (await process.table.fresh(id))?.machine !== null)
  const mute = new Set<string>()
  const { cell_id } = await world.workspace(id)
  const context: ProbeContext = {
    cell_id: cell_id ?? '',
    db: world.db,
    clock: world.clock,
    ids: world.ids,
    host: world.host,
    table: process.table,
    log: pino({ level: 'silent' }),
    ask_alive: async (machine) => !mute.has(machine.agent_key),
    spare_share: () => 0,
  }
  const silent = new Map()
  return {
    context,
    mute,
    id,
    async look(times) {
      for (let turn = 0; turn < times; turn += 1) await probe(context, silent)
    },
  }
}

const keyOf = async (world: World) => (await world.host.inventory()).machines[0]?.agent_key ?? ''

test('a machine that is silent and stands still for three probes is ended, and the workspace failed', async () => {
  await using world = await createWorld()
  const { mute, id, look } = await running(world)
  await look(5)
  mute.add(await keyOf(world))
  world.host.guest(id).pause()
  await look(2)
  assert.equal((await world.workspace(id)).observed_state, 'running')
  await look(1)
  assert.equal((await world.workspace(id)).observed_state, 'failed')
  assert.deepEqual((await world.host.inventory()).machines, [])
})

test('a silent machine that is busy is ended once its agent could have run', async () => {
  await using world = await createWorld()
  const { context, mute, id, look } = await running(world)
  const stats = context.host.stats.bind(context.host)
  let cpu_usec = 0
  context.host.stats = async () => {
    world.clock.advance(2)
    cpu_usec += 100_000
    return (await stats()).map((one) => ({ ...one, cpu_usec }))
  }
  mute.add(await keyOf(world))
  await look(5)
  context.spare_share = () => 1
  await look(1)
  assert.equal((await world.workspace(id)).observed_state, 'running')
  await look(1)
  assert.equal((await world.workspace(id)).observed_state, 'failed')
})

test('an answer in between restarts the count', async () => {
  await using world = await createWorld()
  const { mute, id, look } = await running(world)
  world.host.guest(id).pause()
  for (let turn = 0; turn < 4; turn += 1) {
    mute.add(await keyOf(world))
    await look(2)
    mute.clear()
    await look(1)
  }
  assert.equal((await world.workspace(id)).observed_state, 'running')
})

test('a machine that the host has frozen is left alone, however silent it is', async () => {
  await using world = await createWorld()
  const { mute, id, context, look } = await running(world)
  mute.add(await keyOf(world))
  const { rows } = { rows: await world.db.selectFrom('operations').select('fence').execute() }
  const fence = Math.max(...rows.map((row) => row.fence))
  await context.host.freeze({ subject: workspaceSubject(id), operation_id: world.ids.next(), step: 'freeze', epoch: 1, fence })
  await look(10)
  assert.equal((await world.workspace(id)).observed_state, 'running')
  assert.equal((await world.host.inventory()).machines[0]?.state, 'frozen')
})
