import { LIMITS } from '../../../../contract/limits.ts'
import type { projectsCreate, projectsUpdate } from '../../../../contract/routes/app/members.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { lockOrganization } from '../../../core/people/members/store.ts'
import { countProjects, insertProject, lockProject, renameProject } from '../../../core/people/organizations/store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { notFound } from '../../calls/scope.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { unlessTaken } from '../../calls/names.ts'
import { slugOf } from '../../../core/people/organizations/slug.ts'
import { projectView } from './view.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

const { projects_max } = LIMITS.organization

export async function createProject(call: Call<typeof projectsCreate>, deps: ChangeDeps): Promise<Reply> {
  const { organization_id } = call.params
  const { name, slug = slugOf(name) } = call.body
  const project = { id: deps.ids.next(), organization_id, name, slug, created_at: call.now }
  const work = async (tx: ChangeTx) => {
    await lockOrganization(tx, organization_id)
    const current = await countProjects(tx, organization_id)
    if (current >= projects_max) {
      const details = { limit: 'projects', limit_value: projects_max, current }
      throw fail('quota_exceeded', null, 'The organization has as many projects as it may', { details })
    }
    await insertProject(tx, project)
  }
  const subject = { kind: 'project', id: project.id, organization_id, project_id: project.id, details: { slug } } as const
  await unlessTaken(changing(deps, call, work, () => subject))
  return { status: 201, body: projectView(project) }
}

export async function updateProject(call: Call<typeof projectsUpdate>, deps: ChangeDeps): Promise<Reply> {
  const { project_id } = call.params
  const { name } = call.body
  const work = async (tx: ChangeTx) => {
    const row = await lockProject(tx, project_id)
    if (row === undefined) throw notFound('project')
    if (row.name !== name) await renameProject(tx, project_id, name)
    return { row, is_new: row.name !== name }
  }
  const { row } = await changing(deps, call, work, (done) => {
    return done.is_new ? { kind: 'project', id: project_id, organization_id: done.row.organization_id, project_id } : null
  })
  return { status: 200, body: projectView({ ...row, name }) }
}
