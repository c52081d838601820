import type { Decision } from '../../../../contract/states/commands.ts'
import type { ChangeTx } from '../../changes/mutate.ts'
import type { Ids } from '../../../lib/ids.ts'
import { writeDesiredState } from '../state-store.ts'
import { aboutWorkspace, insertOperation } from './store.ts'

export type Operate = Extract<Decision, { kind: 'operate' }>

export interface LockedWorkspace {
  id: string
  organization_id: string
  project_id: string
  cell_id: string | null
}

/**
 * The caller must have checked the command table and, for a start, admission (`core/money/admission`).
 * @throws StaleReadError if another operation locks the workspace.
 */
export async function beginOperation(
  { ids }: { ids: Ids },
  tx: ChangeTx,
  row: LockedWorkspace,
  { operation: kind, desired_state }: Operate,
  options: { cell_id: string | null; input?: Record<string, unknown>; now: Date },
): Promise<string> {
  const { cell_id, input = {}, now } = options
  const id = ids.next()
  // Reads are allowed while a snapshot is captured (Cell, "Workspace as seen by tool calls").
  const gate = kind === 'snapshot' || kind === 'layer_snapshot' ? 'read_only' : 'closed'
  await insertOperation(tx, { ...aboutWorkspace(row), id, kind, cell_id, input, now }, { workspace_ids: [row.id], gate })
  await writeDesiredState(tx, row.id, desired_state, row.cell_id === null ? { cell_id } : {}, now)
  return id
}
