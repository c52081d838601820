import type { attachmentsDelete } from '../../../../contract/routes/app/volumes.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { beginOperation } from '../../../core/workspaces/operations/begin.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { notFound } from '../../calls/scope.ts'
import { changeAndAnswer } from '../../calls/idempotency/change.ts'
import { workspaceCommandResult } from '../answer-operation.ts'
import { lockForChange } from '../find.ts'
import { operateOn, refuseAlways } from '../refusals.ts'
import { attachmentAndOperationBody, type AttachmentCommandResult } from './answer.ts'
import { markDetaching, readAttachments } from './store.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

export async function detachVolume(call: Call<typeof attachmentsDelete>, deps: ChangeDeps): Promise<Reply> {
  const { now, params } = call
  const { volume_id } = params
  const work = async (tx: ChangeTx): Promise<AttachmentCommandResult> => {
    const row = await lockForChange(tx, call)
    refuseAlways(row, 'detach_volume')
    const attachment = (await readAttachments(readerOf(tx), row.id)).find((one) => one.volume_id === volume_id)
    if (attachment === undefined) throw notFound('volume')
    if (attachment.state === 'attaching') throw fail('conflict', 'attach_in_progress', 'The volume is being attached to the workspace')
    if (attachment.state === 'detaching') throw fail('conflict', 'detach_in_progress', 'The volume is being detached from the workspace')
    const operate = operateOn(row, 'detach_volume')
    const operation_id = await beginOperation(deps, tx, row, operate, { cell_id: row.cell_id, input: { volume_id }, now })
    await markDetaching(tx, attachment.id, operation_id, now)
    return { ...workspaceCommandResult(row, { status: 202, operation_id, changed: true }), volume_id }
  }
  return changeAndAnswer(deps, call, work, attachmentAndOperationBody)
}
