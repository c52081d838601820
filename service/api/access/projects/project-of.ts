import type { Reader } from '../../../db/reader.ts'
import type { Principal } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { maySee, notFound, type Owned } from '../../calls/scope.ts'
import { readProject } from './store.ts'

export async function projectOf(reads: Reader, who: Principal, project_id: string | undefined): Promise<Owned> {
  if (who.type === 'api_key') {
    if (project_id !== undefined && project_id !== who.project_id) throw notFound('project')
    return { organization_id: who.organization_id, project_id: who.project_id }
  }
  if (project_id === undefined) {
    const issues = [{ path: 'project_id', message: 'is required of a person' }]
    throw fail('validation_failed', null, 'The request is not valid', { details: { issues } })
  }
  const project = await readProject(reads, project_id)
  if (project === null || !maySee(who, { organization_id: project.organization_id, project_id })) throw notFound('project')
  return { organization_id: project.organization_id, project_id }
}
