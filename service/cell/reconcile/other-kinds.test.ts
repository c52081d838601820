import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Machine } from '../../../contract/internal/host-inventory.ts'
import type { Subject } from '../../../contract/internal/host-subject.ts'
import { AT_ONCE_MS, createWorld, type World } from '../../../tests/engine/world.ts'
import { AgentFailure } from '../host/agent-failure.ts'
import { UNLIMITED_BUDGET } from '../host/buffer-budget.ts'

const RESOURCES = { cpu_millis: 500, memory_mib: 128, disk_gib: 1 }

async function start(world: World, subject: Subject): Promise<Machine> {
  const fence = { subject, operation_id: world.ids.next(), step: 'start', epoch: 1, fence: 1 }
  return world.host.start({ ...fence, resources: RESOURCES, hostname: 'box', layers: [] })
}

async function row(world: World, subject: Subject, workspace_id: string): Promise<void> {
  const { organization_id, project_id } = await world.workspace(workspace_id)
  const { id: cell_id } = await world.db.selectFrom('cells').select('id').executeTakeFirstOrThrow()
  const { cpu_millis: grant_cpu_millis, memory_mib: grant_memory_mib, disk_gib: grant_disk_gib } = RESOURCES
  const grants = { grant_cpu_millis, grant_memory_mib, grant_disk_gib }
  await world.db.insertInto('machines').values({ ...subject, workspace_id, organization_id, project_id, cell_id, epoch: 1, ...grants }).execute() // prettier-ignore
}

const bounds = () => ({ signal: AbortSignal.timeout(AT_ONCE_MS), room: UNLIMITED_BUDGET })

test('the link to the machine of a build or an execution ends with its death, however the cell learns of it', async () => {
  await using world = await createWorld()
  const { workspace_id, operation_id } = await world.open()
  const process = await world.startProcess()
  await world.ended(operation_id)
  const told: Subject = { kind: 'build', id: world.ids.next() }
  const found: Subject = { kind: 'execution', id: world.ids.next() }
  for (const subject of [told, found]) await row(world, subject, workspace_id)
  const build = process.guests.open(await start(world, told))
  const execution = process.guests.open(await start(world, found))
  const isGone = async ({ link }: typeof build) => {
    const error: unknown = await link.getExec('x', bounds()).catch((error: unknown) => error)
    return error instanceof AgentFailure && error.message === 'The machine has ended'
  }
  world.host.kill(told)
  const died_ms = performance.now()
  await world.until(() => isGone(build))
  assert.ok(performance.now() - died_ms < AT_ONCE_MS, 'only a comparison found it')
  assert.equal(await isGone(execution), false)
  world.host.reboot() // the reboot of the host sends no event
  await process.engine.watch()?.sweep()
  assert.equal(await isGone(execution), true)
})

test('the sweep keeps machines of other kinds that a row names, and deletes all others of every kind', async () => {
  await using world = await createWorld()
  const first = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  await first.close()
  const named: Subject = { kind: 'test_instance', id: world.ids.next() }
  await row(world, named, workspace_id)
  await start(world, named)
  const unnamed = (['execution', 'build', 'test_instance'] as const).map((kind): Subject => ({ kind, id: world.ids.next() }))
  for (const subject of unnamed) await start(world, subject)
  await start(world, { kind: 'build', id: named.id })
  await world.startProcess()
  const { machines, files } = await world.host.inventory()
  const kinds = (all: { subject: Subject }[]) => all.map(({ subject }) => `${subject.kind} ${subject.id}`).sort()
  assert.deepEqual(kinds(machines), [`test_instance ${named.id}`, `workspace ${workspace_id}`])
  assert.deepEqual(kinds(files), [`test_instance ${named.id}`, `workspace ${workspace_id}`])
})
