import assert from 'node:assert/strict'
import type { World } from './world.ts'
import { subjectName } from '../../service/cell/host/subject.ts'

export async function assertNothingIsLeft(world: World): Promise<void> {
  const rows = await world.db.selectFrom('workspaces').selectAll().execute()
  const checkpoints = await world.db.selectFrom('checkpoints').select(['id', 'workspace_id']).where('deleted_at', 'is', null).execute()
  const captures = await world.db.selectFrom('template_captures').select(['id', 'checkpoint_id']).where('state', '=', 'ready').execute()
  const { machines, files } = await world.host.inventory()
  const resident = rows.filter(({ observed_state, residency }) => observed_state === 'running' && residency === 'resident')
  const withDisk = rows.filter(({ disk }) => disk !== null)
  assert.deepEqual(
    sorted(machines, (one) => `${subjectName(one.subject)} ${one.epoch} ${one.state === 'paused'} ${one.connected} ${one.disk}`),
    sorted(resident, (row) => `${row.id} ${row.ownership_epoch} false true ${row.disk}`),
  )
  assert.deepEqual(
    files.flatMap(({ subject, disks }) => disks.map((disk) => `${subjectName(subject)} ${disk}`)).sort(),
    sorted(withDisk, (row) => `${row.id} ${row.disk}`),
  )
  assert.deepEqual(
    files.flatMap((one) => one.checkpoints.map(({ checkpoint_id }) => `${subjectName(one.subject)} ${checkpoint_id}`)).sort(),
    [...checkpoints.map((one) => `${one.workspace_id} ${one.id}`), ...captures.map((one) => `build.${one.id} ${one.checkpoint_id}`)].sort(),
  )
  for (const { observed_state, residency, checkpoint_id } of rows) {
    if (observed_state === 'deleted') continue
    assert.notEqual(residency, 'restoring')
    if (observed_state === 'suspended' || residency === 'hibernated') assert.ok(checkpoints.some(({ id }) => id === checkpoint_id))
  }
  assert.deepEqual(await world.db.selectFrom('workspace_holds').selectAll().execute(), [])
  assert.deepEqual(await world.db.selectFrom('operations').select('id').where('completed_at', 'is', null).execute(), [])
}

function sorted<T>(list: T[], name: (one: T) => string): string[] {
  return list.map(name).sort()
}
