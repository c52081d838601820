import type { invitationsList } from '../../../../contract/routes/app/members.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { listInvitations } from './store.ts'
import { invitationView } from './view.ts'
import type { PageDeps } from '../../calls/deps.ts'

export async function listInvitationsOfOrganization(call: Call<typeof invitationsList>, deps: PageDeps): Promise<Reply> {
  const rows = await listInvitations(deps.reads, call.params.organization_id, call.now, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, invitationView) }
}
