import type { Tx } from '../../db/reader.ts'
import type { ApiDeps } from '../deps.ts'
import type { WorkspaceRow } from './row.ts'
import type { Allowed } from './refusals.ts'
import { insertOperation, writeDesiredState } from './write-store.ts'

export type Operate = Extract<Allowed, { kind: 'operate' }>

/** Records the operation that a command means for a workspace that nothing holds. @returns its id. */
export async function beginOperation(
  deps: ApiDeps,
  tx: Tx,
  row: WorkspaceRow,
  { operation: kind, desired_state }: Operate,
  options: { cell_id: string | null; input?: Record<string, unknown>; now: Date },
): Promise<string> {
  const id = deps.ids.next()
  const operation = { id, kind, workspace: row, cell_id: options.cell_id, input: options.input ?? {}, now: options.now }
  // Cell, "Workspace as seen by tool calls": reads still work while a snapshot is captured.
  await insertOperation(tx, operation, kind === 'snapshot' ? 'read_only' : 'closed')
  await writeDesiredState(tx, row.id, desired_state, row.cell_id === null ? { cell_id: options.cell_id } : {}, options.now)
  return id
}
