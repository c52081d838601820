import type { organizationsGet } from '../../../../contract/routes/app/principals.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { listOrganizations } from './store.ts'
import { organizationView } from './view.ts'
import type { ReadDeps } from '../../calls/deps.ts'

export async function getOrganization(call: Call<typeof organizationsGet>, deps: ReadDeps): Promise<Reply> {
  const { organization_id } = call.params
  if (!maySeeOrganization(call.who, organization_id)) throw notFound('organization')
  const [row] = await listOrganizations(deps.reads, [organization_id], { limit: 1, below: null })
  if (!row) throw notFound('organization')
  return { status: 200, body: organizationView(call.who, row) }
}
