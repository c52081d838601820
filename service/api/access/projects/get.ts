import type { projectsGet } from '../../../../contract/routes/app/principals.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { maySee, notFound } from '../../calls/scope.ts'
import { readProject } from './store.ts'
import { projectView } from './view.ts'
import type { ReadDeps } from '../../calls/deps.ts'

export async function getProject(call: Call<typeof projectsGet>, deps: ReadDeps): Promise<Reply> {
  const row = await readProject(deps.reads, call.params.project_id)
  if (row === null || !maySee(call.who, { organization_id: row.organization_id, project_id: row.id })) throw notFound('project')
  return { status: 200, body: projectView(row) }
}
