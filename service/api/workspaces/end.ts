import type { ChangeTx } from '../../core/changes/mutate.ts'
import { aboutWorkspace, insertOperation } from '../../core/workspaces/operations/store.ts'
import { markDeleted } from '../../core/workspaces/state-store.ts'
import { lockWorkspace } from './store.ts'
import { freeKey } from './write-store.ts'
import type { CallDeps } from '../calls/deps.ts'

export interface Ending {
  ended_reason: string | null
  input: Record<string, unknown>
}

/** Marks the workspace as ended. @returns the delete operation, which removes its resources. */
export async function endWorkspace(
  deps: Pick<CallDeps, 'ids'>,
  tx: ChangeTx,
  id: string,
  ending: Ending & { frees_key: boolean },
  now: Date,
): Promise<string> {
  const row = await lockWorkspace(tx, id)
  if (row === null) throw new Error('a workspace is gone that was to be ended')
  await markDeleted(tx, id, ending.ended_reason, now)
  if (ending.frees_key) await freeKey(tx, id)
  const operation_id = deps.ids.next()
  const operation = { ...aboutWorkspace(row), id: operation_id, kind: 'delete', cell_id: row.cell_id, input: ending.input, now } as const
  await insertOperation(tx, operation, { workspace_ids: [row.id], gate: 'closed' })
  return operation_id
}
