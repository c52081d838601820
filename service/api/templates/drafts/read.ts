import type {
  draftsGet,
  draftsGetOfOrganization,
  draftStatesList,
  draftStatesListOfOrganization,
  draftTestInstancesList,
  draftTestInstancesListOfOrganization,
} from '../../../../contract/routes/app/template-drafts.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { workspaceView } from '../../workspaces/view.ts'
import { findDraft } from './find.ts'
import { listInstances, listStates } from './store.ts'
import { draftView, stateView } from './view.ts'
import type { PageDeps, ReadDeps } from '../../calls/deps.ts'

export async function getDraft(call: Call<typeof draftsGet> | Call<typeof draftsGetOfOrganization>, deps: ReadDeps): Promise<Reply> {
  return { status: 200, body: draftView(await findDraft(deps.reads, call)) }
}

export async function listDraftStates(
  call: Call<typeof draftStatesList> | Call<typeof draftStatesListOfOrganization>,
  deps: PageDeps,
): Promise<Reply> {
  const { id } = await findDraft(deps.reads, call)
  const rows = await listStates(deps.reads, id, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, stateView) }
}

/** The test instances belong to the draft's project, so a key that sees the draft sees all. */
export async function listDraftTestInstances(
  call: Call<typeof draftTestInstancesList> | Call<typeof draftTestInstancesListOfOrganization>,
  deps: PageDeps,
): Promise<Reply> {
  const { id } = await findDraft(deps.reads, call)
  const rows = await listInstances(deps.reads, id, call.query.include_ended ?? false, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, workspaceView) }
}
