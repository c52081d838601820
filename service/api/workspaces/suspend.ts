import type { workspacesSuspend } from '../../../contract/routes/app/lifecycle.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import { beginOperation } from '../../core/workspaces/operations/begin.ts'
import type { Call, Reply } from '../../http/call.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { changeAndAnswer } from '../calls/idempotency/change.ts'
import { operationBody, workspaceCommandResult } from './answer-operation.ts'
import { lockForChange } from './find.ts'
import { allowed, joined } from './refusals.ts'
import type { ChangeDeps } from '../calls/deps.ts'

export async function suspendWorkspace(call: Call<typeof workspacesSuspend>, deps: ChangeDeps): Promise<Reply> {
  await failpoint('suspend.S1')
  const work = async (tx: ChangeTx) => {
    const row = await lockForChange(tx, call)
    const decision = allowed(row, 'suspend')
    const changed = decision.kind === 'operate'
    const operation_id =
      decision.kind === 'operate' ? await beginOperation(deps, tx, row, decision, { cell_id: row.cell_id, now: call.now }) : joined(row)
    return workspaceCommandResult(row, { status: 202, operation_id, changed })
  }
  return changeAndAnswer(deps, call, work, operationBody)
}
