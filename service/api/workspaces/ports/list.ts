import type { portsGet, portsList } from '../../../../contract/routes/app/ports.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { notFound } from '../../calls/scope.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { findWorkspace } from '../find.ts'
import { listPorts, readPort } from './store.ts'
import { portView } from './view.ts'
import type { PageDeps, ReadDeps } from '../../calls/deps.ts'
import type { WorkspaceDeps } from '../deps.ts'

export async function listPortsOfWorkspace(
  call: Call<typeof portsList>,
  deps: PageDeps & Pick<WorkspaceDeps, 'ports_url'>,
): Promise<Reply> {
  const workspace = await findWorkspace(deps, call)
  const rows = await listPorts(deps.reads, workspace.id, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, (row) => portView(deps.ports_url, row)) }
}

export async function getPort(call: Call<typeof portsGet>, deps: ReadDeps & Pick<WorkspaceDeps, 'ports_url'>): Promise<Reply> {
  const workspace = await findWorkspace(deps, call)
  const row = await readPort(deps.reads, workspace.id, call.params.port)
  if (row === null) throw notFound('port')
  return { status: 200, body: portView(deps.ports_url, row) }
}
