import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Principal } from '../../../http/call.ts'
import { notFound } from '../../calls/scope.ts'
import { lockForChange } from '../find.ts'
import { allowed } from '../refusals.ts'
import type { WorkspaceRow } from '../row.ts'
import { refuseOwnPort } from './rules.ts'
import { readPort, type PortRow } from './store.ts'

export interface PortCall {
  who: Principal
  params: { workspace_id: string; port: number }
}

/** The workspace's lock serializes changes of its ports. */
export async function lockPort(tx: ChangeTx, call: PortCall): Promise<{ workspace: WorkspaceRow; port: PortRow | null }> {
  const workspace = await lockForChange(tx, call)
  allowed(workspace, 'ports')
  refuseOwnPort(call.params.port)
  return { workspace, port: await readPort(readerOf(tx), workspace.id, call.params.port) }
}

export async function lockExposed(tx: ChangeTx, call: PortCall): Promise<{ workspace: WorkspaceRow; port: PortRow }> {
  const { workspace, port } = await lockPort(tx, call)
  if (port === null) throw notFound('port')
  return { workspace, port }
}
