import type { workspacesSnapshot } from '../../../../contract/routes/app/checkpoints.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { beginOperation } from '../../../core/workspaces/operations/begin.ts'
import { readerOf, type Tx } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { changeAndAnswer } from '../../calls/idempotency/change.ts'
import { operationBody, workspaceCommandResult } from '../answer-operation.ts'
import { lockForChange } from '../find.ts'
import { operateOn } from '../refusals.ts'
import type { WorkspaceRow } from '../row.ts'
import { countSnapshots } from './store.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

export async function snapshotWorkspace(call: Call<typeof workspacesSnapshot>, deps: ChangeDeps): Promise<Reply> {
  await failpoint('snapshot.P1')
  const work = async (tx: ChangeTx) => {
    const row = await lockForChange(tx, call)
    const operate = operateOn(row, 'snapshot')
    refuseBlank(row)
    await refuseTooMany(tx, row)
    const input = call.body.label === undefined ? {} : { label: call.body.label }
    const operation_id = await beginOperation(deps, tx, row, operate, { cell_id: row.cell_id, input, now: call.now })
    return workspaceCommandResult(row, { status: 202, operation_id, changed: true })
  }
  return changeAndAnswer(deps, call, work, operationBody)
}

/** A workspace that was reset while suspended has neither memory nor disk. */
function refuseBlank(row: WorkspaceRow): void {
  if (row.observed_state === 'suspended' && row.checkpoint_id === null) {
    throw fail('conflict', 'not_snapshottable', 'The workspace was reset while it was suspended: it has nothing to capture yet')
  }
}

/** Without a limit one workspace could fill the host. */
async function refuseTooMany(tx: Tx, row: WorkspaceRow): Promise<void> {
  const current = await countSnapshots(readerOf(tx), row.id)
  const limit_value = LIMITS.workspace.snapshots_per_workspace_max
  if (current < limit_value) return
  throw fail('quota_exceeded', null, 'The workspace has as many snapshots as it may have', {
    details: { limit: 'snapshots_per_workspace', limit_value, current },
  })
}
