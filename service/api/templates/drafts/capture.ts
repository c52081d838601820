import { LIMITS } from '../../../../contract/limits.ts'
import type { draftStatesCreate, draftStatesCreateOfOrganization } from '../../../../contract/routes/app/template-drafts.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { beginOperation } from '../../../core/workspaces/operations/begin.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { changeAndAnswer } from '../../calls/idempotency/change.ts'
import { operationBody, workspaceCommandResult } from '../../workspaces/answer-operation.ts'
import { operateOn } from '../../workspaces/refusals.ts'
import { lockDraft } from './find.ts'
import { countStates, insertState } from './store.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

export async function captureDraft(
  call: Call<typeof draftStatesCreate> | Call<typeof draftStatesCreateOfOrganization>,
  deps: ChangeDeps,
): Promise<Reply> {
  await failpoint('draft_state.D1')
  const work = async (tx: ChangeTx) => {
    const { draft, workspace } = await lockDraft(tx, call)
    const operate = operateOn(workspace, 'save_as_template')
    await refuseTooMany(tx, draft.id)
    const { label = null } = call.body
    const state_id = deps.ids.next()
    const input = { reason: 'draft_state', state_id, ...(label === null ? {} : { label }) }
    const operation_id = await beginOperation(deps, tx, workspace, operate, { cell_id: workspace.cell_id, input, now: call.now })
    await insertState(tx, { id: state_id, draft_id: draft.id, operation_id, label, created_at: call.now })
    return workspaceCommandResult(workspace, { status: 202, operation_id, changed: true })
  }
  return changeAndAnswer(deps, call, work, operationBody)
}

/** Without a limit one draft could fill the host. */
async function refuseTooMany(tx: ChangeTx, draft_id: string): Promise<void> {
  const current = await countStates(readerOf(tx), draft_id)
  const limit_value = LIMITS.template_build.draft_states_max
  if (current < limit_value) return
  throw fail('quota_exceeded', null, 'The draft has as many states as it may have: delete checkpoints of its workspace', {
    details: { limit: 'states_per_draft', limit_value, current },
  })
}
