import type { World } from './world.ts'

/** Inserts a volume without storage on a cell. @returns its id */
export async function insertVolume(world: World, workspace_id: string): Promise<string> {
  const { organization_id, project_id } = await world.workspace(workspace_id)
  const id = world.ids.next()
  const at = { created_at: new Date(), updated_at: new Date(), deleted_at: null }
  const row = {
    id,
    organization_id,
    project_id,
    cell_id: null,
    name: id,
    quota_gib: 9,
    org_shared: false,
    state: 'available' as const,
    ...at,
  }
  await world.db.insertInto('volumes').values(row).execute()
  return id
}
