import { StaleReadError } from '../../core/changes/stale-read-error.ts'
import { lockOperation } from '../../core/workspaces/operations/store.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import { readerOf, type Tx } from '../../db/reader.ts'
import type { Principal } from '../../http/call.ts'
import { maySee, notFound } from '../calls/scope.ts'
import type { WorkspaceRow } from './row.ts'
import { lockWorkspace, readWorkspace } from './store.ts'
import type { ReadDeps } from '../calls/deps.ts'

interface WorkspaceCall {
  who: Principal
  params: { workspace_id: string }
}

export async function findWorkspace(deps: ReadDeps, call: WorkspaceCall): Promise<WorkspaceRow> {
  return visible(call.who, await readWorkspace(deps.reads, call.params.workspace_id))
}

/** Checks no permission: the pipeline has checked the route's permission before. */
export async function lockForChange(tx: Tx, call: WorkspaceCall): Promise<WorkspaceRow> {
  return visible(call.who, await lockWorkspace(tx, call.params.workspace_id))
}

/** Locks the operation first (lock order: cell/operations/store.ts). While locked, the operation cannot progress. */
export async function lockWithOperation(tx: ChangeTx, call: WorkspaceCall): Promise<WorkspaceRow> {
  const before = visible(call.who, await readWorkspace(readerOf(tx), call.params.workspace_id))
  if (before.op_id !== null) await lockOperation(tx, before.op_id)
  const row = await lockForChange(tx, call)
  if (row.op_id !== null && row.op_id !== before.op_id) throw new StaleReadError('another operation holds the workspace')
  return row
}

export function visible(who: Principal, row: WorkspaceRow | null): WorkspaceRow {
  if (row === null || !maySee(who, row)) throw notFound('workspace')
  return row
}
