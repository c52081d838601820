import type { volumesList } from '../../../../contract/routes/app/volumes.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { projectOf } from '../../access/projects/project-of.ts'
import { listVolumes } from './store.ts'
import { volumeView } from './view.ts'
import type { PageDeps } from '../../calls/deps.ts'

export async function listVolumesOfProject(call: Call<typeof volumesList>, deps: PageDeps): Promise<Reply> {
  const project = await projectOf(deps.reads, call.who, call.params.project_id)
  const { include_org_shared = false, include_deleted = false } = call.query
  const page = pageOf(deps.cursor_keys, call)
  const rows = await listVolumes(deps.reads, { ...project, include_org_shared, include_deleted }, page)
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, (row) => volumeView(call.who, row)) }
}
