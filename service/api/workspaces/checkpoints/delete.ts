import type { checkpointsDelete } from '../../../../contract/routes/app/checkpoints.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { workspaceSubject } from '../answer-operation.ts'
import { lockForChange } from '../find.ts'
import { allowed } from '../refusals.ts'
import { hasCheckpoint, hasDraftState, markDeleted, wasDeleted } from './store.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

/** Only marks the checkpoint. The cell removes the files later. */
export async function deleteCheckpoint(call: Call<typeof checkpointsDelete>, deps: ChangeDeps): Promise<Reply> {
  const { checkpoint_id } = call.params
  const work = async (tx: ChangeTx) => {
    const row = await lockForChange(tx, call)
    allowed(row, 'delete_checkpoint')
    const reads = readerOf(tx)
    if (await hasCheckpoint(reads, row.id, checkpoint_id, call.now)) {
      if (row.checkpoint_id === checkpoint_id) throw fail('conflict', 'not_running', STANDS_ON_IT, { details: { checkpoint_id } })
      await markDeleted(tx, checkpoint_id, call.now)
      return row
    }
    if (await hasDraftState(reads, row.id, checkpoint_id)) {
      await markDeleted(tx, checkpoint_id, call.now)
      return row
    }
    if (await wasDeleted(reads, row.id, checkpoint_id)) return null
    throw fail('not_found', 'checkpoint_not_found', 'The workspace has no such checkpoint')
  }
  await changing(
    deps,
    call,
    work,
    (row) => row && { ...workspaceSubject(row, { workspace_id: row.id }), kind: 'checkpoint', id: checkpoint_id },
  )
  return { status: 204 }
}

const STANDS_ON_IT = 'The workspace does not run and would go on from this checkpoint: resume it or restore another one first'
