import type { workspacesList, workspacesListOfOrganization } from '../../../contract/routes/app/workspaces.ts'
import type { Call, Reply } from '../../http/call.ts'
import { maySeeOrganization, notFound } from '../calls/scope.ts'
import { pageAnswer, pageOf } from '../calls/pages.ts'
import { findWorkspaces } from './list-store.ts'
import { workspaceView } from './view.ts'
import type { PageDeps } from '../calls/deps.ts'

export async function listWorkspaces(call: Call<typeof workspacesList>, deps: PageDeps): Promise<Reply> {
  const page = pageOf(deps.cursor_keys, call)
  const rows = await findWorkspaces(deps.reads, call.who, call.query, page)
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, workspaceView) }
}

export async function listWorkspacesOfOrganization(call: Call<typeof workspacesListOfOrganization>, deps: PageDeps): Promise<Reply> {
  const { organization_id } = call.params
  if (!maySeeOrganization(call.who, organization_id)) throw notFound('organization')
  const page = pageOf(deps.cursor_keys, call)
  const rows = await findWorkspaces(deps.reads, call.who, { ...call.query, organization_id }, page)
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, workspaceView) }
}
