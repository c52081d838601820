import type { ChangeTx } from '../../core/changes/mutate.ts'
import { cancelOperation, lockOperation } from '../../core/workspaces/operations/store.ts'
import { readerOf } from '../../db/reader.ts'
import { listLiveInstances, listOpenBuilds, markDiscarded } from './draft-end-store.ts'

/** Requires the workspace's lock. @returns test instances of the draft, which the caller must end, too. */
export async function endWithDraft(tx: ChangeTx, workspace_id: string, now: Date): Promise<string[]> {
  const draft = await markDiscarded(tx, workspace_id, now)
  if (draft === undefined) return []
  for (const { operation_id } of await listOpenBuilds(readerOf(tx), workspace_id)) {
    await lockOperation(tx, operation_id)
    await cancelOperation(tx, operation_id, now, 'The draft was discarded')
  }
  return listLiveInstances(readerOf(tx), draft.id)
}
