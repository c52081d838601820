import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld, type World } from '../../../tests/engine/world.ts'
import { volumeSubject } from '../host/subject.ts'

const DAY_SECONDS = 24 * 3600

async function volume(world: World, workspace_id: string, state: 'creating' | 'available' | 'failed' | 'deleting' | 'deleted' | null) {
  const id = world.ids.next()
  const fence = { subject: volumeSubject(id), operation_id: world.ids.next(), step: 'create', epoch: 0, fence: 1 }
  await world.host.createVolume({ ...fence, quota_gib: 1 })
  if (state !== null) await row(world, workspace_id, id, state)
  return id
}

async function row(world: World, workspace_id: string, id: string, state: 'creating' | 'available' | 'failed' | 'deleting' | 'deleted') {
  const { organization_id, project_id, cell_id } = await world.workspace(workspace_id)
  const now = world.clock.now()
  const deleted_at = ['deleting', 'deleted'].includes(state) ? now : null
  const at = { created_at: now, updated_at: now, deleted_at }
  const of = { organization_id, project_id, cell_id, name: id, quota_gib: 1, org_shared: false }
  await world.db.insertInto('volumes').values({ id, ...of, state, ...at }).execute() // prettier-ignore
}

const here = async (world: World) =>
  new Map((await world.host.inventory()).volumes.map(({ volume_id, kept_since }) => [volume_id, kept_since !== undefined]))

test('host data of a deleted volume goes; a volume that no row names is kept for the days of the quarantine', async () => {
  await using world = await createWorld()
  const first = await world.startProcess()
  const { workspace_id, operation_id } = await world.open()
  assert.equal((await world.ended(operation_id)).state, 'succeeded')
  await first.close()
  const live = await Promise.all((['creating', 'available', 'failed', 'deleting'] as const).map((one) => volume(world, workspace_id, one)))
  await volume(world, workspace_id, 'deleted')
  const [strange, comes_back] = [await volume(world, workspace_id, null), await volume(world, workspace_id, null)]
  const states = (kept: Record<string, boolean>) => new Map([...live.map((id) => [id, false] as const), ...Object.entries(kept)])
  const second = await world.startProcess()
  assert.deepEqual(await here(world), states({ [strange]: true, [comes_back]: true }))
  await second.close()
  await row(world, workspace_id, comes_back, 'available')
  world.clock.advance(6 * DAY_SECONDS)
  const third = await world.startProcess()
  assert.deepEqual(await here(world), states({ [strange]: true, [comes_back]: false }))
  await third.close()
  world.clock.advance(2 * DAY_SECONDS)
  await world.startProcess()
  assert.deepEqual(await here(world), states({ [comes_back]: false }))
})
