import type { organizationsList } from '../../../../contract/routes/app/principals.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { listOrganizations } from './store.ts'
import { organizationView } from './view.ts'
import { organizationIds } from '../../../core/people/organizations/store.ts'
import type { PageDeps } from '../../calls/deps.ts'

export async function listOwnOrganizations(call: Call<typeof organizationsList>, deps: PageDeps): Promise<Reply> {
  const page = pageOf(deps.cursor_keys, call)
  const rows = await listOrganizations(deps.reads, organizationIds(call.who), page)
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, (row) => organizationView(call.who, row)) }
}
