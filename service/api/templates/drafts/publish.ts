import type { draftsPublish, draftsPublishOfOrganization } from '../../../../contract/routes/app/template-drafts.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { beginOperation } from '../../../core/workspaces/operations/begin.ts'
import { checkAcknowledged } from '../../../core/templates/acknowledged.ts'
import { draftSettings, refuseUpdatePolicy } from '../../../core/templates/version-settings.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { changeAndAnswer } from '../../calls/idempotency/change.ts'
import { beginBuild, refuseManyBuilds } from '../builds/begin.ts'
import { refuseAutoPublish, refuseCommands } from '../builds/permissions.ts'
import { startedBody, type Begun } from '../builds/save-as-template.ts'
import { readSource } from '../builds/source-store.ts'
import { findTemplate, refuseArchived } from '../find.ts'
import { lockTemplate } from '../store.ts'
import { operateOn } from '../../workspaces/refusals.ts'
import { lockDraft, noState, type LockedDraft } from './find.ts'
import { readLiveDraft, readState, type DraftRow, type StateRow } from './store.ts'
import { listOpenBuilds } from '../../workspaces/draft-end-store.ts'
import { isStale } from './view.ts'
import type { CallDeps, ChangeDeps } from '../../calls/deps.ts'

type PublishCall = Call<typeof draftsPublish> | Call<typeof draftsPublishOfOrganization>

export async function publishDraft(call: PublishCall, deps: ChangeDeps): Promise<Reply> {
  await failpoint('template_build.B1')
  const work = async (tx: ChangeTx) => begin(deps, tx, call, await lockDraft(tx, call))
  return changeAndAnswer(deps, call, work, startedBody)
}

/** The first failing check decides the refusal: keep this order. */
async function begin(
  deps: Pick<CallDeps, 'ids'>,
  tx: ChangeTx,
  call: PublishCall,
  { template, draft, workspace }: LockedDraft,
): Promise<Begun> {
  const { who, params, body, now } = call
  const source = await readSource(readerOf(tx), workspace.id)
  const acknowledged = checkAcknowledged(body.acknowledged_scan_findings)
  refuseUpdatePolicy(body)
  const settings = draftSettings(source.settings, body)
  refuseCommands(who, draft.organization_id, settings)
  const state = await stateOf(tx, draft, body.state_id)
  // The template's lock serializes this call with publishing and archiving.
  refuseAutoPublish(who, body.auto_publish, await lockTemplate(tx, template.id))
  refuseArchived(await findTemplate(readerOf(tx), who, params))
  await refuseDuringBuild(tx, workspace.id)
  await refuseStale(tx, draft)
  const operate = state === null ? operateOn(workspace, 'save_as_template') : null
  await refuseManyBuilds(tx, draft.organization_id)
  const { organization_id, project_id, cell_id } = workspace
  const capture_id =
    operate === null ? null : await beginOperation(deps, tx, workspace, operate, { cell_id, input: { reason: 'draft_publish' }, now })
  const spec = {
    ...source,
    settings,
    workspace_id: workspace.id,
    checkpoint_id: state?.checkpoint_id ?? null,
    description: body.description ?? null,
    auto_publish: body.auto_publish ?? false,
    acknowledged,
  }
  const about = { organization_id, project_id, template_id: draft.template_id, template_slug: draft.template_slug, cell_id, now }
  const begun = await beginBuild(deps, tx, { ...about, kind: 'draft', spec, capture_operation_id: capture_id })
  return { ...begun, capture_id }
}

/** null: the draft's current content. */
async function stateOf(tx: ChangeTx, draft: DraftRow, id: string | undefined): Promise<StateRow | null> {
  if (id === undefined) return null
  const state = await readState(readerOf(tx), draft.id, id)
  if (state === null) throw noState()
  return state
}

export async function refuseDuringBuild(tx: ChangeTx, workspace_id: string): Promise<void> {
  const [build] = await listOpenBuilds(readerOf(tx), workspace_id)
  if (build === undefined) return
  throw fail('conflict', 'build_in_progress', 'A version is being made of the draft', { details: { build_id: build.id } })
}

async function refuseStale(tx: ChangeTx, { template_id }: DraftRow): Promise<void> {
  const draft = await readLiveDraft(readerOf(tx), template_id)
  if (draft === null || draft.latest_version === null || !isStale(draft)) return
  const { latest_version, draft_base_version } = draft
  throw fail('conflict', 'draft_stale', 'A newer version is published, which the draft does not know', {
    details: { latest_version, draft_base_version },
  })
}
