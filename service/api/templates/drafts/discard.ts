import type { draftsDiscard, draftsDiscardOfOrganization } from '../../../../contract/routes/app/template-drafts.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { change } from '../../calls/idempotency/change.ts'
import { operationBody } from '../../workspaces/answer-operation.ts'
import { answerEnding, DRAFT_DISCARDED, endForGood } from '../../workspaces/delete.ts'
import { findDraft } from './find.ts'
import { refuseDuringBuild } from './publish.ts'
import type { ChangeDeps } from '../../calls/deps.ts'
import type { WorkspaceDeps } from '../../workspaces/deps.ts'

export async function discardDraft(
  call: Call<typeof draftsDiscard> | Call<typeof draftsDiscardOfOrganization>,
  deps: ChangeDeps & Pick<WorkspaceDeps, 'waits' | 'delete_told_seconds'>,
): Promise<Reply> {
  const work = async (tx: ChangeTx) => {
    const { workspace_id } = await findDraft(readerOf(tx), call)
    await refuseDuringBuild(tx, workspace_id)
    return endForGood(deps, tx, { who: call.who, params: { workspace_id }, now: call.now }, 'delete', DRAFT_DISCARDED)
  }
  return answerEnding(call, deps, await change(deps, call, work, operationBody))
}
