import type { ChangeTx } from '../../core/changes/mutate.ts'
import { cancelOperation, lockOperation } from '../../core/operations/store.ts'
import { readerOf } from '../../db/reader.ts'
import { listLiveInstances, listOpenBuilds, markDiscarded } from './store.ts'

/**
 * What ends with the workspace of a draft, which the transaction has locked: whatever is being published of it is canceled, in the same
 * commit. @returns the test instances that are to end, too.
 */
export async function endWithDraft(tx: ChangeTx, workspace_id: string, now: Date): Promise<string[]> {
  const draft = await markDiscarded(tx, workspace_id, now)
  if (draft === undefined) return []
  for (const { operation_id } of await listOpenBuilds(readerOf(tx), workspace_id)) {
    await lockOperation(tx, operation_id)
    await cancelOperation(tx, operation_id, now, 'The draft was discarded')
  }
  return listLiveInstances(readerOf(tx), draft.id)
}
