import type { membersList } from '../../../../contract/routes/app/members.ts'
import type { Member } from '../../../../contract/schemas/members.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { listMembers, type MemberRow } from './store.ts'
import type { PageDeps } from '../../calls/deps.ts'

export async function listMembersOfOrganization(call: Call<typeof membersList>, deps: PageDeps): Promise<Reply> {
  const { organization_id } = call.params
  if (!maySeeOrganization(call.who, organization_id)) throw notFound('organization')
  const rows = await listMembers(deps.reads, organization_id, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, memberView) }
}

export function memberView({ id: person_id, created_at, ...row }: MemberRow): Member {
  return { person_id, ...row, created_at: created_at.toISOString() }
}
