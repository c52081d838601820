import type { organizationsList } from '../../../../contract/routes/app/principals.ts'
import type { Call, Reply } from '../../../http/call.ts'
import type { ApiDeps } from '../../deps.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { listOrganizations } from './store.ts'
import { organizationIds, organizationView } from './view.ts'

export async function listOwnOrganizations(call: Call<typeof organizationsList>, deps: ApiDeps): Promise<Reply> {
  const page = pageOf(deps.cursor_keys, call)
  const rows = await listOrganizations(deps.reads, organizationIds(call.who), page)
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, (row) => organizationView(call.who, row)) }
}
