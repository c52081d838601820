import type { workspacesClose } from '../../../contract/routes/app/lifecycle.ts'
import type { workspacesDelete } from '../../../contract/routes/app/workspaces.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import { Again } from '../../core/changes/again.ts'
import { aboutWorkspace, cancelOperation, insertFinishedDelete, lockOperation } from '../../core/operations/store.ts'
import { readerOf } from '../../db/reader.ts'
import type { Call, Reply } from '../../http/call.ts'
import { failpoint } from '../../lib/failpoints.ts'
import type { ApiDeps } from '../deps.ts'
import { answerKept, change, type Changed } from '../idempotency/change.ts'
import { lastDelete } from '../operations/store.ts'
import { operationBody, workedOn, type WorkedOn } from './answer-operation.ts'
import { endWorkspace, type Ending } from './end.ts'
import { lockForChange, visible } from './find.ts'
import { allowed } from './refusals.ts'
import { activeOperation, type WorkspaceRow } from './row.ts'
import { readWorkspace } from './store.ts'

type EndingCall = Call<typeof workspacesDelete> | Call<typeof workspacesClose>

/** DELETE /v1/workspaces/{workspace_id} */
export async function deleteWorkspace(call: Call<typeof workspacesDelete>, deps: ApiDeps): Promise<Reply> {
  await failpoint('delete.D1')
  const ending: Ending = { ended_reason: null, input: {} }
  const outcome = await change(deps, call, (tx) => endForGood(deps, tx, call, 'delete', ending), operationBody)
  await failpoint('delete.D2')
  return answerEnding(call, deps, outcome)
}

/** POST /v1/workspaces/{workspace_id}/close */
export async function closeWorkspace(call: Call<typeof workspacesClose>, deps: ApiDeps): Promise<Reply> {
  const ending: Ending = { ended_reason: 'closed', input: { reason: 'session_closed' } }
  const outcome = await change(deps, call, (tx) => endForGood(deps, tx, call, 'close', ending), operationBody)
  return answerEnding(call, deps, outcome)
}

/**
 * Promise N7 (docs/operating/promises.md): after this answer no tool call is served. The cell shuts its gate before it takes the operation, so the answer
 * waits until it is taken; where no cell is there to take it, none serves calls either.
 */
async function answerEnding(call: EndingCall, deps: ApiDeps, outcome: Changed): Promise<Reply> {
  const { operation_id } = outcome
  if (operation_id !== null) await deps.waits.until(operation_id, ({ state }) => state !== 'queued', deps.delete_told_seconds, call.signal)
  return answerKept(outcome)
}

/** A workspace with whatever is under way of it, by whoever may. */
export async function endForGood(
  deps: Pick<ApiDeps, 'ids'>,
  tx: ChangeTx,
  call: Pick<EndingCall, 'who' | 'params' | 'now'>,
  command: 'delete' | 'close',
  ending: Ending,
): Promise<WorkedOn> {
  const row = await lockWithOperation(tx, call)
  const decision = allowed(row, command)
  if (decision.kind !== 'operate') {
    const operation_id = await deleteOperationOf(deps, tx, row, call.now)
    return workedOn(row, { status: 202, operation_id, changed: false })
  }
  const active = activeOperation(row)
  if (active) {
    await cancelOperation(tx, active.id, call.now)
    const target = active.kind === 'fork' && active.workspace_id !== row.id ? active.workspace_id : null
    // The capture is not committed while the fork still holds its source: nothing is there to open, so its key is free again.
    if (target !== null) await endWorkspace(deps, tx, target, { ended_reason: 'fork_failed', input: {}, frees_key: true }, call.now)
  }
  const frees_key = row.lifetime === 'session'
  const operation_id = await endWorkspace(deps, tx, row.id, { ...ending, frees_key }, call.now)
  return workedOn(row, { status: 202, operation_id, changed: true })
}

/** Operation first, workspace second: the order of locks (cell/operations/store.ts). */
async function lockWithOperation(tx: ChangeTx, call: Pick<EndingCall, 'who' | 'params'>): Promise<WorkspaceRow> {
  const before = visible(call.who, await readWorkspace(readerOf(tx), call.params.workspace_id))
  if (before.op_id !== null) await lockOperation(tx, before.op_id)
  const row = await lockForChange(tx, call)
  if (row.op_id !== null && row.op_id !== before.op_id) throw new Again('another operation holds the workspace')
  return row
}

async function deleteOperationOf(deps: Pick<ApiDeps, 'ids'>, tx: ChangeTx, row: WorkspaceRow, now: Date): Promise<string> {
  const operation_id = row.op_id ?? (await lastDelete(readerOf(tx), row.id))?.id
  if (operation_id !== undefined) return operation_id
  // A fork that captured nothing was taken back by its own operation: there was no delete so far to answer with.
  const id = deps.ids.next()
  await insertFinishedDelete(tx, { ...aboutWorkspace(row), id, now })
  return id
}
