import type { workspacesReset } from '../../../../contract/routes/app/checkpoints.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { beginOperation } from '../../../core/workspaces/operations/begin.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { changeAndAnswer } from '../../calls/idempotency/change.ts'
import { operationBody, workspaceCommandResult } from '../answer-operation.ts'
import { lockForChange } from '../find.ts'
import { operateOn, refuseAlways } from '../refusals.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

export async function resetWorkspace(call: Call<typeof workspacesReset>, deps: ChangeDeps): Promise<Reply> {
  await failpoint('reset.Z1')
  const work = async (tx: ChangeTx) => {
    const row = await lockForChange(tx, call)
    refuseAlways(row, 'reset')
    if (row.disk_layout === 'legacy') throw fail('conflict', 'legacy_disk_layout', 'Only a layered workspace can be reset')
    if (call.body.confirm_destructive !== true) {
      throw fail('validation_failed', 'confirm_destructive_required', 'A reset wipes every change: confirm_destructive must be true', {
        details: { field: 'confirm_destructive' },
      })
    }
    const operate = operateOn(row, 'reset')
    const operation_id = await beginOperation(deps, tx, row, operate, { cell_id: row.cell_id, now: call.now })
    return workspaceCommandResult(row, { status: 202, operation_id, changed: true })
  }
  return changeAndAnswer(deps, call, work, operationBody)
}
