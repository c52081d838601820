import type { workspacesGet, workspacesInputs } from '../../../contract/routes/app/workspaces.ts'
import type { Call, Reply } from '../../http/call.ts'
import type { ApiDeps } from '../deps.ts'
import { findWorkspace } from './find.ts'
import { workspaceView } from './view.ts'

export async function getWorkspace(call: Call<typeof workspacesGet>, deps: ApiDeps): Promise<Reply> {
  return { status: 200, body: workspaceView(await findWorkspace(deps, call)) }
}

export async function getInputs(call: Call<typeof workspacesInputs>, deps: ApiDeps): Promise<Reply> {
  return { status: 200, body: (await findWorkspace(deps, call)).inputs }
}
