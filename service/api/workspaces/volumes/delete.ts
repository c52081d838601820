import type { volumesDelete } from '../../../../contract/routes/app/volumes.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { aboutVolume, insertOperation } from '../../../core/workspaces/operations/store.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { notFound } from '../../calls/scope.ts'
import { changeAndAnswer } from '../../calls/idempotency/change.ts'
import { projectOf } from '../../access/projects/project-of.ts'
import { volumeAndOperationBody, workedOnVolume } from './answer.ts'
import { cancelCreation, lastVolumeOperation, lockVolume, markDeleting, type VolumeRow } from './store.ts'
import { visibleAttachments } from './view.ts'
import type { ChangeDeps, ReadDeps } from '../../calls/deps.ts'

type DeleteCall = Call<typeof volumesDelete>

export async function deleteVolume(call: DeleteCall, deps: ChangeDeps & ReadDeps): Promise<Reply> {
  const { now, who, params } = call
  const project = await projectOf(deps.reads, who, params.project_id)
  await failpoint('volume_delete.W1')
  const work = async (tx: ChangeTx) => {
    if (call.query.force === true) await cancelCreation(tx, params.volume_id, now)
    const row = await lockVolume(tx, params.volume_id)
    // A shared volume is deleted only in its own project.
    if (row?.project_id !== project.project_id) throw notFound('volume')
    if (row.deleted_at !== null) {
      const earlier = await lastVolumeOperation(readerOf(tx), row.id, 'volume_delete')
      if (earlier !== null) return workedOnVolume(row, earlier, false)
    }
    refuse(call, row)
    const operation_id = deps.ids.next()
    const input = call.query.force === true ? { force: true } : {}
    const operation = { id: operation_id, kind: 'volume_delete', cell_id: row.cell_id, input, now } as const
    await insertOperation(tx, { ...aboutVolume(row), ...operation }, null)
    await markDeleting(tx, row.id, now)
    return workedOnVolume(row, operation_id, true)
  }
  return changeAndAnswer(deps, call, work, volumeAndOperationBody(who))
}

/** The specification (App, "Volumes") lists these refusals. */
function refuse({ query, who }: DeleteCall, row: VolumeRow): void {
  const { force = false, confirm_name } = query
  if ((force || confirm_name !== undefined) && confirm_name !== row.name) {
    throw fail('validation_failed', null, 'confirm_name is not the name of the volume', { details: { field: 'confirm_name' } })
  }
  if (row.state === 'creating' && !force)
    throw fail('conflict', 'volume_creating', 'The volume is still being created: wait for that, or force its deletion')
  if (row.attachments.length === 0 || force) return
  const attachments = visibleAttachments(who, row).map(({ workspace_id, mount_path, mode, state }) => ({
    workspace_id,
    mount_path,
    mode,
    state,
  }))
  throw fail('conflict', 'volume_attached', 'The volume is attached to workspaces: detach it, or force its deletion', {
    details: { attachments },
  })
}
