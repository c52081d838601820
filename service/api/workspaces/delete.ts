import type { workspacesClose } from '../../../contract/routes/app/lifecycle.ts'
import type { workspacesDelete } from '../../../contract/routes/app/workspaces.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import {
  aboutWorkspace,
  cancelOperation,
  insertFinishedDelete,
  releaseWorkspaceLock,
  readWaitingForks,
} from '../../core/workspaces/operations/store.ts'
import { readerOf } from '../../db/reader.ts'
import type { Call, Reply } from '../../http/call.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { answerKept, change, type Changed } from '../calls/idempotency/change.ts'
import { lastDelete } from './operations/store.ts'
import type { OperationRow } from './operations/view.ts'
import { endWithDraft } from './end-with-draft.ts'
import { operationBody, workspaceCommandResult, type WorkspaceCommandResult } from './answer-operation.ts'
import { endWorkspace, type Ending } from './end.ts'
import { lockWithOperation } from './find.ts'
import { allowed } from './refusals.ts'
import { activeOperation, type WorkspaceRow } from './row.ts'
import type { CallDeps, ChangeDeps } from '../calls/deps.ts'
import type { WorkspaceDeps } from './deps.ts'

type EndingCall = Call<typeof workspacesDelete> | Call<typeof workspacesClose>

export async function deleteWorkspace(
  call: Call<typeof workspacesDelete>,
  deps: ChangeDeps & Pick<WorkspaceDeps, 'waits' | 'delete_told_seconds'>,
): Promise<Reply> {
  await failpoint('delete.D1')
  const ending: Ending = { ended_reason: null, input: {} }
  const outcome = await change(deps, call, (tx) => endForGood(deps, tx, call, 'delete', ending), operationBody)
  await failpoint('delete.D2')
  return answerEnding(call, deps, outcome)
}

export const DRAFT_DISCARDED: Ending = { ended_reason: 'draft_discarded', input: { reason: 'draft_discarded' } }

export async function closeWorkspace(
  call: Call<typeof workspacesClose>,
  deps: ChangeDeps & Pick<WorkspaceDeps, 'waits' | 'delete_told_seconds'>,
): Promise<Reply> {
  const ending: Ending = { ended_reason: 'closed', input: { reason: 'session_closed' } }
  const outcome = await change(deps, call, (tx) => endForGood(deps, tx, call, 'close', ending), operationBody)
  return answerEnding(call, deps, outcome)
}

/**
 * Promise N7 (docs/operating/promises.md): after this answer no tool call is served. The cell closes admission before it starts the
 * operation, so the answer waits for the start. If no cell starts it, no cell serves calls.
 */
export async function answerEnding(
  call: Pick<EndingCall, 'signal'>,
  deps: Pick<WorkspaceDeps, 'waits' | 'delete_told_seconds'>,
  outcome: Changed,
): Promise<Reply> {
  const { operation_id } = outcome
  if (operation_id !== null) await deps.waits.until(operation_id, ({ state }) => state !== 'queued', deps.delete_told_seconds, call.signal)
  return answerKept(outcome)
}

export async function endForGood(
  deps: Pick<CallDeps, 'ids'>,
  tx: ChangeTx,
  call: Pick<EndingCall, 'who' | 'params' | 'now'>,
  command: 'delete' | 'close',
  ending: Ending,
): Promise<WorkspaceCommandResult> {
  const row = await lockWithOperation(tx, call)
  const decision = allowed(row, command)
  if (decision.kind !== 'operate') {
    const operation_id = await deleteOperationOf(deps, tx, row, call.now)
    return workspaceCommandResult(row, { status: 202, operation_id, changed: false })
  }
  const active = activeOperation(row)
  if (active) await cancelActive(deps, tx, row, active, call.now)
  if (row.purpose === 'template_draft') {
    for (const workspace_id of await endWithDraft(tx, row.id, call.now))
      await endForGood(deps, tx, { ...call, params: { workspace_id } }, 'delete', DRAFT_DISCARDED)
  }
  const frees_key = row.lifetime === 'session'
  const operation_id = await endWorkspace(deps, tx, row.id, { ...ending, frees_key }, call.now)
  return workspaceCommandResult(row, { status: 202, operation_id, changed: true })
}

/** All joined forks of a deleted source end: while one holds the source, none has captured. */
async function cancelActive(deps: Pick<CallDeps, 'ids'>, tx: ChangeTx, row: WorkspaceRow, active: OperationRow, now: Date): Promise<void> {
  // The adoption continues. It fails later if it still needs the deleted fork.
  if (active.kind === 'adopt' && active.workspace_id !== row.id) return releaseWorkspaceLock(tx, active.id, row.id)
  if (active.kind !== 'fork' || active.workspace_id === row.id) return cancelOperation(tx, active.id, now)
  // Cancels waiting forks first, because a holder that ends hands the source's lock to the next fork.
  const waiting = (await readWaitingForks(tx, row.id)).filter(({ id }) => id !== active.id)
  for (const { id, workspace_id } of [...waiting, active]) {
    await cancelOperation(tx, id, now)
    // The fork has created nothing, so its key becomes free.
    if (workspace_id !== null) await endWorkspace(deps, tx, workspace_id, { ended_reason: 'fork_failed', input: {}, frees_key: true }, now)
  }
}

async function deleteOperationOf(deps: Pick<CallDeps, 'ids'>, tx: ChangeTx, row: WorkspaceRow, now: Date): Promise<string> {
  const operation_id = row.op_id ?? (await lastDelete(readerOf(tx), row.id))?.id
  if (operation_id !== undefined) return operation_id
  // A fork that captured nothing was removed without a delete operation, so one is inserted now.
  const id = deps.ids.next()
  await insertFinishedDelete(tx, { ...aboutWorkspace(row), id, now })
  return id
}
