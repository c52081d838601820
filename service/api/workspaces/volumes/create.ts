import type { volumesCreate } from '../../../../contract/routes/app/volumes.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { aboutVolume, insertOperation } from '../../../core/workspaces/operations/store.ts'
import { volumeRefusal } from '../../../core/workspaces/volumes/plan.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Principal, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { changeAndAnswer } from '../../calls/idempotency/change.ts'
import { projectOf } from '../../access/projects/project-of.ts'
import { volumeAndOperationBody, workedOnVolume } from './answer.ts'
import { countLiveVolumes, hasVolumeNamed, insertVolume, lockVolumesOf, readVolumePlan } from './store.ts'
import type { ChangeDeps, ReadDeps } from '../../calls/deps.ts'
import type { WorkspaceDeps } from '../deps.ts'

export async function createVolume(
  call: Call<typeof volumesCreate>,
  deps: ChangeDeps & ReadDeps & Pick<WorkspaceDeps, 'cells'>,
): Promise<Reply> {
  const { body, now, who } = call
  const project = await projectOf(deps.reads, who, call.params.project_id)
  const { name, quota_gib, org_shared = false } = body
  if (org_shared && !mayShare(who, project.organization_id)) {
    throw fail('forbidden', null, 'Only owners and admins of the organization make a volume that all of its projects can have')
  }
  await failpoint('volume_create.V1')
  const work = async (tx: ChangeTx) => {
    const reads = readerOf(tx)
    await lockVolumesOf(tx, project.organization_id)
    if (await hasVolumeNamed(reads, project.project_id, name)) {
      throw fail('conflict', 'name_in_use', 'A volume of the project has that name', { details: { name } })
    }
    const live = await countLiveVolumes(reads, project.organization_id)
    const refused = volumeRefusal(await readVolumePlan(reads, project.organization_id), quota_gib, live)
    if (refused !== null) throw refused
    const volume = { ...project, id: deps.ids.next(), cell_id: await deps.cells.choose(reads), name, quota_gib, org_shared, now }
    await insertVolume(tx, volume)
    const operation_id = deps.ids.next()
    const operation = {
      id: operation_id,
      kind: 'volume_create',
      cell_id: volume.cell_id,
      input: { name, quota_gib, org_shared },
      now,
    } as const
    await insertOperation(tx, { ...aboutVolume(volume), ...operation }, null)
    return workedOnVolume(volume, operation_id, true)
  }
  return changeAndAnswer(deps, call, work, volumeAndOperationBody(who))
}

/** Only owners and admins may share a volume (App, "Volumes"). An API key is neither. */
function mayShare(who: Principal, organization_id: string): boolean {
  if (who.type === 'api_key') return false
  const role = who.memberships.find((membership) => membership.organization_id === organization_id)?.role
  return role === 'owner' || role === 'admin'
}
