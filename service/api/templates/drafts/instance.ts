import type { draftTestInstancesCreate, draftTestInstancesCreateOfOrganization } from '../../../../contract/routes/app/template-drafts.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { requestedTools } from '../../calls/scope.ts'
import { change, type Changed } from '../../calls/idempotency/change.ts'
import { refuseArchived } from '../find.ts'
import { openTestWorkspace, type TestSubject } from '../test-instance.ts'
import { answerStart } from '../../workspaces/answer-start.ts'
import { checkKey } from '../../workspaces/open-rules.ts'
import { readTemplateVersion } from '../../workspaces/store.ts'
import { findDraft, lockDraft, noState, type LockedDraft } from './find.ts'
import { readState } from './store.ts'
import type { AnswerDeps, WorkspaceDeps } from '../../workspaces/deps.ts'
import type { CallDeps } from '../../calls/deps.ts'

type InstanceCall = Call<typeof draftTestInstancesCreate> | Call<typeof draftTestInstancesCreateOfOrganization>

/** Opens the instance in the draft's project, on the host that has the state. */
export async function openDraftInstance(
  call: InstanceCall,
  deps: AnswerDeps & Pick<WorkspaceDeps, 'cells' | 'layered_opens'> & Pick<CallDeps, 'turns' | 'change_rate'>,
): Promise<Reply> {
  const { body, who } = call
  if (body.key !== undefined) checkKey(body.key)
  const { organization_id } = await findDraft(deps.reads, call)
  requestedTools(who, organization_id, body.tools)
  const work = async (tx: ChangeTx) => {
    const locked = await lockDraft(tx, call)
    refuseArchived(locked.template)
    return openTestWorkspace(deps, tx, call, await triedOf(tx, locked, body.state_id ?? null))
  }
  return answerDraftInstance(call, deps, await change(deps, call, work))
}

export function answerDraftInstance(call: InstanceCall, deps: AnswerDeps, outcome: Changed): Promise<Reply> {
  return answerStart(call, deps, outcome, undefined, (started) => started)
}

async function triedOf(tx: ChangeTx, { draft, workspace }: LockedDraft, state_id: string | null): Promise<TestSubject> {
  const state = await readState(readerOf(tx), draft.id, state_id)
  if (state === null) throw noState()
  const { id, checkpoint_id, layers } = state
  const { organization_id, project_id, template_id, template_slug } = draft
  return {
    project: { organization_id, project_id },
    slug: template_slug,
    version: await readTemplateVersion(readerOf(tx), workspace.template_version_id),
    origin: { kind: 'draft_state', checkpoint_id, state_id: id, template_id },
    state: { draft_state_id: id, state_layers: layers, ...(workspace.cell_id === null ? {} : { cell_id: workspace.cell_id }) },
  }
}
