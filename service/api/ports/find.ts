import type { ChangeTx } from '../../core/changes/mutate.ts'
import { readerOf } from '../../db/reader.ts'
import type { Principal } from '../../http/call.ts'
import { notFound } from '../auth/scope.ts'
import { lockForChange } from '../workspaces/find.ts'
import { allowed } from '../workspaces/refusals.ts'
import type { WorkspaceRow } from '../workspaces/row.ts'
import { refuseOwnPort } from './rules.ts'
import { readPort, type PortRow } from './store.ts'

export interface PortCall {
  who: Principal
  params: { workspace_id: string; port: number }
}

/** The workspace, whose ports nobody else changes until the transaction ends, and the port as it is; null: it is not exposed. */
export async function lockPort(tx: ChangeTx, call: PortCall): Promise<{ workspace: WorkspaceRow; port: PortRow | null }> {
  const workspace = await lockForChange(tx, call)
  allowed(workspace, 'ports')
  refuseOwnPort(call.params.port)
  return { workspace, port: await readPort(readerOf(tx), workspace.id, call.params.port) }
}

/** The same of a port that has to be exposed. */
export async function lockExposed(tx: ChangeTx, call: PortCall): Promise<{ workspace: WorkspaceRow; port: PortRow }> {
  const { workspace, port } = await lockPort(tx, call)
  if (port === null) throw notFound('port')
  return { workspace, port }
}
