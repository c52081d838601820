import type { workspacesRestore } from '../../../../contract/routes/app/checkpoints.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { beginOperation } from '../../../core/workspaces/operations/begin.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { changeAndAnswer } from '../../calls/idempotency/change.ts'
import { operationBody, workspaceCommandResult } from '../answer-operation.ts'
import { lockForChange } from '../find.ts'
import { operateOn } from '../refusals.ts'
import { hasCheckpoint } from './store.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

export async function restoreWorkspace(call: Call<typeof workspacesRestore>, deps: ChangeDeps): Promise<Reply> {
  const { body, now } = call
  await failpoint('restore.V1')
  const work = async (tx: ChangeTx) => {
    const row = await lockForChange(tx, call)
    const operate = operateOn(row, 'restore')
    // A parked checkpoint can be restored only without memory. If its memory cannot be resumed, its disk is all that is left.
    const sleeps_on_it = body.memory === false && body.checkpoint_id === row.checkpoint_id
    if (!sleeps_on_it && !(await hasCheckpoint(readerOf(tx), row.id, body.checkpoint_id, now))) {
      throw fail('not_found', 'checkpoint_not_found', 'The workspace has no such checkpoint')
    }
    const input = { checkpoint_id: body.checkpoint_id, ...(body.memory === false ? { memory: false } : {}) }
    const operation_id = await beginOperation(deps, tx, row, operate, { cell_id: row.cell_id, input, now })
    return workspaceCommandResult(row, { status: 202, operation_id, changed: true })
  }
  return changeAndAnswer(deps, call, work, operationBody)
}
