import type { workspacesSuspend } from '../../../contract/routes/app/lifecycle.ts'
import type { Tx } from '../../db/reader.ts'
import type { Call, Reply } from '../../http/call.ts'
import { failpoint } from '../../lib/failpoints.ts'
import type { ApiDeps } from '../deps.ts'
import type { Outcome } from '../idempotency/store.ts'
import { changeAndAnswer, operationBody } from './answer-operation.ts'
import { lockForChange } from './find.ts'
import { beginOperation } from './operate.ts'
import { allowed, joined } from './refusals.ts'

/** POST /v1/workspaces/{workspace_id}/suspend */
export async function suspendWorkspace(call: Call<typeof workspacesSuspend>, deps: ApiDeps): Promise<Reply> {
  await failpoint('suspend.S1')
  const work = async (tx: Tx): Promise<Outcome> => {
    const row = await lockForChange(tx, call)
    const decision = allowed(row, 'suspend')
    const operation_id =
      decision.kind === 'operate' ? await beginOperation(deps, tx, row, decision, { cell_id: row.cell_id, now: call.now }) : joined(row)
    return { status: 202, workspace_id: row.id, operation_id }
  }
  return changeAndAnswer(deps, call, work, operationBody)
}
