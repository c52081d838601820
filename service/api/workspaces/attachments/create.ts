import type { attachmentsCreate } from '../../../../contract/routes/app/volumes.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { beginOperation } from '../../../core/workspaces/operations/begin.ts'
import { attachmentsRefusal } from '../../../core/workspaces/volumes/plan.ts'
import { readerOf, type Reader } from '../../../db/reader.ts'
import type { Call, Principal, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { notFound } from '../../calls/scope.ts'
import { changeAndAnswer } from '../../calls/idempotency/change.ts'
import { isOf, mayKnowOf } from '../volumes/find.ts'
import { checkMountPath, conflicts } from '../volumes/mount-path.ts'
import { lockVolume, readVolumePlan, type VolumeRow } from '../volumes/store.ts'
import { workspaceCommandResult } from '../answer-operation.ts'
import { lockForChange } from '../find.ts'
import { operateOn, refuseAlways } from '../refusals.ts'
import type { WorkspaceRow } from '../row.ts'
import { attachmentAndOperationBody, type AttachmentCommandResult } from './answer.ts'
import { insertAttachment, readAttachments, type AttachmentRow } from './store.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

export async function attachVolume(call: Call<typeof attachmentsCreate>, deps: ChangeDeps): Promise<Reply> {
  const { body, now, who } = call
  const { volume_id, mount_path, mode = 'read_write' } = body
  checkMountPath(mount_path)
  const work = async (tx: ChangeTx): Promise<AttachmentCommandResult> => {
    const row = await lockForChange(tx, call)
    refuseAlways(row, 'attach_volume')
    refuseVolume(who, row, await lockVolume(tx, volume_id))
    const reads = readerOf(tx)
    const attached = await readAttachments(reads, row.id)
    refuseSame(attached, volume_id)
    const operate = operateOn(row, 'attach_volume')
    refusePath(attached, mount_path)
    await refuseTooMany(reads, row, attached.length)
    const input = { volume_id, mount_path, mode }
    const operation_id = await beginOperation(deps, tx, row, operate, { cell_id: row.cell_id, input, now })
    await insertAttachment(tx, { id: deps.ids.next(), workspace_id: row.id, ...input, place: freePlace(attached), operation_id, now })
    return { ...workspaceCommandResult(row, { status: 202, operation_id, changed: true }), volume_id }
  }
  return changeAndAnswer(deps, call, work, attachmentAndOperationBody)
}

function refuseVolume(who: Principal, workspace: WorkspaceRow, volume: VolumeRow | null): void {
  if (volume === null || !mayKnowOf(who, workspace, volume)) throw notFound('volume')
  if (!isOf(workspace, volume)) {
    throw fail('conflict', 'volume_not_shared', 'The volume belongs to another project and is not shared in the organization')
  }
  if (volume.state === 'creating') throw fail('conflict', 'volume_creating', 'The volume is still being created')
  const is_elsewhere = workspace.cell_id !== null && volume.cell_id !== null && workspace.cell_id !== volume.cell_id
  if (volume.state !== 'available' || is_elsewhere) {
    throw fail(
      'conflict',
      'volume_not_available',
      is_elsewhere ? 'The volume is on another host than the workspace' : 'The volume cannot be used',
    )
  }
}

function refuseSame(attached: AttachmentRow[], volume_id: string): void {
  const same = attached.find((one) => one.volume_id === volume_id)
  if (same === undefined) return
  if (same.state === 'attaching') throw fail('conflict', 'attach_in_progress', 'The volume is being attached to the workspace')
  if (same.state === 'detaching') throw fail('conflict', 'detach_in_progress', 'The volume is being detached from the workspace')
  throw fail('conflict', 'already_attached', 'The workspace has the volume already')
}

function refusePath(attached: AttachmentRow[], mount_path: string): void {
  const other = attached.find((one) => conflicts(one.mount_path, mount_path))
  if (other === undefined) return
  throw fail('conflict', 'mount_path_conflict', 'Another volume of the workspace is at that path, above or below it', {
    details: { mount_path: other.mount_path, volume_id: other.volume_id },
  })
}

async function refuseTooMany(reads: Reader, { organization_id }: WorkspaceRow, current: number): Promise<void> {
  const refused = attachmentsRefusal(await readVolumePlan(reads, organization_id), current)
  if (refused !== null) throw refused
}

function freePlace(attached: AttachmentRow[]): number {
  const taken = new Set(attached.map(({ place }) => place))
  for (let place = 0; place < LIMITS.volume.attachments_per_workspace_max; place++) if (!taken.has(place)) return place
  throw new Error('a workspace has fewer attachments than places, and no place')
}
