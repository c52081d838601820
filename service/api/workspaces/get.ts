import type { workspacesGet, workspacesInputs } from '../../../contract/routes/app/workspaces.ts'
import type { Call, Reply } from '../../http/call.ts'
import { findWorkspace } from './find.ts'
import { workspaceView } from './view.ts'
import type { ReadDeps } from '../calls/deps.ts'

export async function getWorkspace(call: Call<typeof workspacesGet>, deps: ReadDeps): Promise<Reply> {
  return { status: 200, body: workspaceView(await findWorkspace(deps, call)) }
}

export async function getInputs(call: Call<typeof workspacesInputs>, deps: ReadDeps): Promise<Reply> {
  return { status: 200, body: (await findWorkspace(deps, call)).inputs }
}
