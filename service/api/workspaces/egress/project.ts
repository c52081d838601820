import { normalPolicy } from '../../../../contract/egress/check.ts'
import type { projectEgressGet, projectEgressPut, projectEgressVersions } from '../../../../contract/routes/app/egress.ts'
import { readProjectPolicy } from '../../../core/workspaces/egress/store.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { projectOf } from '../../access/projects/project-of.ts'
import { etagOf, refuseStaleVersion } from '../../calls/if-match.ts'
import { insertEgressVersion, listEgressVersions, lockProjectEgress } from './store.ts'
import { egressVersionView, projectEgressView } from './view.ts'
import type { ChangeDeps, PageDeps, ReadDeps } from '../../calls/deps.ts'

export async function getProjectEgress(call: Call<typeof projectEgressGet>, deps: ReadDeps): Promise<Reply> {
  const { project_id } = await projectOf(deps.reads, call.who, call.params.project_id)
  const body = projectEgressView(project_id, await readProjectPolicy(deps.reads, project_id))
  return { status: 200, body, headers: etagOf(body.version) }
}

export async function putProjectEgress(call: Call<typeof projectEgressPut>, deps: ChangeDeps & ReadDeps): Promise<Reply> {
  const { who, now } = call
  const project = await projectOf(deps.reads, who, call.params.project_id)
  const policy = normalPolicy(call.body)
  const work = async (tx: ChangeTx) => {
    await lockProjectEgress(tx, project.project_id)
    const current = (await readProjectPolicy(readerOf(tx), project.project_id))?.version ?? 0
    refuseStaleVersion(call.named_headers, current)
    const version = { version: current + 1, policy, created_at: now }
    const by = { type: who.type, id: who.id }
    await insertEgressVersion(tx, { ...project, workspace_id: null, id: deps.ids.next(), version: version.version, policy, by, now })
    return version
  }
  const made = await changing(deps, call, work, ({ version }) => {
    return { kind: 'project', id: project.project_id, ...project, details: { mode: policy.mode, version } }
  })
  return { status: 200, body: projectEgressView(project.project_id, made), headers: etagOf(made.version) }
}

export async function listProjectEgress(call: Call<typeof projectEgressVersions>, deps: PageDeps): Promise<Reply> {
  const project = await projectOf(deps.reads, call.who, call.params.project_id)
  const rows = await listEgressVersions(deps.reads, { ...project, workspace_id: null }, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, egressVersionView) }
}
