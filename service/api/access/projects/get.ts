import type { projectsGet } from '../../../../contract/routes/app/principals.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { maySee, notFound } from '../auth/scope.ts'
import type { ApiDeps } from '../../deps.ts'
import { readProject } from './store.ts'
import { projectView } from './view.ts'

export async function getProject(call: Call<typeof projectsGet>, deps: ApiDeps): Promise<Reply> {
  const row = await readProject(deps.reads, call.params.project_id)
  if (row === null || !maySee(call.who, { organization_id: row.organization_id, project_id: row.id })) throw notFound('project')
  return { status: 200, body: projectView(row) }
}
