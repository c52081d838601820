import type { Principal } from '../../../http/call.ts'
import { maySee, notFound, type Owned } from '../../calls/scope.ts'
import { projectOf } from '../../access/projects/project-of.ts'
import { readVolume, type VolumeRow } from './store.ts'
import type { ReadDeps } from '../../calls/deps.ts'

interface VolumeCall {
  who: Principal
  params: { project_id: string; volume_id: string }
}

export async function findVolume(deps: ReadDeps, call: VolumeCall): Promise<VolumeRow> {
  const project = await projectOf(deps.reads, call.who, call.params.project_id)
  const row = await readVolume(deps.reads, call.params.volume_id)
  if (row === null || !isOf(project, row)) throw notFound('volume')
  return row
}

export function isOf({ organization_id, project_id }: Owned, volume: VolumeRow): boolean {
  return volume.project_id === project_id || (volume.org_shared && volume.organization_id === organization_id)
}

export function mayKnowOf(who: Principal, project: Owned, volume: VolumeRow): boolean {
  return isOf(project, volume) || maySee(who, volume)
}
