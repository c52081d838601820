import type { workspacesCancelSuspendWhenIdle, workspacesSuspendWhenIdle } from '../../../contract/routes/app/lifecycle.ts'
import type { SuspendRequest } from '../../../contract/schemas/workspaces.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import type { Reader } from '../../db/reader.ts'
import type { Call, Reply } from '../../http/call.ts'
import { changeAndAnswer, changing } from '../calls/idempotency/change.ts'
import { operationBody, workspaceCommandResult, workspaceBody, workspaceSubject, type WorkspaceCommandResult } from './answer-operation.ts'
import { findWorkspace, lockForChange } from './find.ts'
import { allowed, joined } from './refusals.ts'
import { suspendRequestView, workspaceView } from './view.ts'
import { writeSuspendRequest } from './write-store.ts'
import type { ChangeDeps, ReadDeps } from '../calls/deps.ts'

/** Only stores the request. The cell's idle clock starts the suspend. */
export async function requestSuspendWhenIdle(call: Call<typeof workspacesSuspendWhenIdle>, deps: ChangeDeps): Promise<Reply> {
  const { now, body } = call
  const work = async (tx: ChangeTx): Promise<Requested> => {
    const row = await lockForChange(tx, call)
    if (allowed(row, 'suspend_when_idle').kind === 'join') {
      return { ...workspaceCommandResult(row, { status: 202, operation_id: joined(row), changed: false }), suspend_request: null }
    }
    const not_before = new Date(now.getTime() + body.after_seconds * 1000)
    const asked = { requested_at: now, after_seconds: body.after_seconds, not_before }
    await writeSuspendRequest(tx, row.id, asked, now)
    return {
      ...workspaceCommandResult(row, { status: 202, operation_id: null, changed: true }),
      suspend_request: suspendRequestView(asked),
    }
  }
  return changeAndAnswer(deps, call, work, requestBody)
}

interface Requested extends WorkspaceCommandResult {
  suspend_request: SuspendRequest | null
}

async function requestBody(reads: Reader, worked: Requested) {
  const operation = worked.operation_id === null ? null : await operationBody(reads, worked)
  return { workspace: await workspaceBody(reads, worked), operation, suspend_request: worked.suspend_request }
}

export async function cancelSuspendWhenIdle(
  call: Call<typeof workspacesCancelSuspendWhenIdle>,
  deps: ChangeDeps & ReadDeps,
): Promise<Reply> {
  const work = async (tx: ChangeTx) => {
    const row = await lockForChange(tx, call)
    allowed(row, 'cancel_suspend_when_idle')
    if (row.suspend_requested_at === null) return null
    await writeSuspendRequest(tx, row.id, null, call.now)
    return row
  }
  await changing(deps, call, work, (row) => row && workspaceSubject(row))
  return { status: 200, body: workspaceView(await findWorkspace(deps, call)) }
}
