import type { projectsList } from '../../../../contract/routes/app/principals.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { listProjects } from './store.ts'
import { projectView } from './view.ts'
import type { PageDeps } from '../../calls/deps.ts'

export async function listProjectsOfOrganization(call: Call<typeof projectsList>, deps: PageDeps): Promise<Reply> {
  const { organization_id } = call.params
  if (!maySeeOrganization(call.who, organization_id)) throw notFound('organization')
  const page = pageOf(deps.cursor_keys, call)
  const rows = await listProjects(deps.reads, organization_id, call.who.type === 'api_key' ? call.who.project_id : null, page)
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, projectView) }
}
