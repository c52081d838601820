import type { workspacesRestore } from '../../../contract/routes/app/checkpoints.ts'
import { readerOf, type Tx } from '../../db/reader.ts'
import type { Call, Reply } from '../../http/call.ts'
import { fail } from '../../lib/fail.ts'
import { failpoint } from '../../lib/failpoints.ts'
import type { ApiDeps } from '../deps.ts'
import type { Outcome } from '../idempotency/store.ts'
import { changeAndAnswer, operationBody } from '../workspaces/answer-operation.ts'
import { lockForChange } from '../workspaces/find.ts'
import { beginOperation } from '../workspaces/operate.ts'
import { operateOn } from '../workspaces/refusals.ts'
import { hasCheckpoint } from './store.ts'

/** POST /v1/workspaces/{workspace_id}/restore */
export async function restoreWorkspace(call: Call<typeof workspacesRestore>, deps: ApiDeps): Promise<Reply> {
  const { body, now } = call
  await failpoint('restore.V1')
  const work = async (tx: Tx): Promise<Outcome> => {
    const row = await lockForChange(tx, call)
    const operate = operateOn(row, 'restore')
    if (!(await hasCheckpoint(readerOf(tx), row.id, body.checkpoint_id, now))) {
      throw fail('not_found', 'checkpoint_not_found', 'The workspace has no such checkpoint')
    }
    const input = { checkpoint_id: body.checkpoint_id }
    const operation_id = await beginOperation(deps, tx, row, operate, { cell_id: row.cell_id, input, now })
    return { status: 202, workspace_id: row.id, operation_id }
  }
  return changeAndAnswer(deps, call, work, operationBody)
}
