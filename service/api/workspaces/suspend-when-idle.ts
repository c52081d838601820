import type { workspacesCancelSuspendWhenIdle, workspacesSuspendWhenIdle } from '../../../contract/routes/app/lifecycle.ts'
import type { Reader, Tx } from '../../db/reader.ts'
import type { Call, Reply } from '../../http/call.ts'
import type { ApiDeps } from '../deps.ts'
import { changing } from '../idempotency/change.ts'
import type { Outcome } from '../idempotency/store.ts'
import { answerKept, changeAndAnswer, operationBody, workspaceBody } from './answer-operation.ts'
import { findWorkspace, lockForChange } from './find.ts'
import { allowed, joined } from './refusals.ts'
import { suspendRequestView, workspaceView } from './view.ts'
import { writeSuspendRequest } from './write-store.ts'

/** POST /v1/workspaces/{workspace_id}/suspend-when-idle: no operation; the cell's idle clock acts on it. */
export async function requestSuspendWhenIdle(call: Call<typeof workspacesSuspendWhenIdle>, deps: ApiDeps): Promise<Reply> {
  const { now, body } = call
  const work = async (tx: Tx): Promise<Outcome> => {
    const row = await lockForChange(tx, call)
    if (allowed(row, 'suspend_when_idle').kind === 'join') {
      return { status: 202, workspace_id: row.id, operation_id: joined(row), suspend_request: null }
    }
    const not_before = new Date(now.getTime() + body.after_seconds * 1000)
    const asked = { requested_at: now, after_seconds: body.after_seconds, not_before }
    await writeSuspendRequest(tx, row.id, asked, now)
    return { status: 202, workspace_id: row.id, operation_id: null, suspend_request: suspendRequestView(asked) }
  }
  return changeAndAnswer(deps, call, work, requestBody)
}

async function requestBody(reads: Reader, outcome: Outcome) {
  const operation = outcome.operation_id === null ? null : await operationBody(reads, outcome)
  return { workspace: await workspaceBody(reads, outcome), operation, suspend_request: outcome.suspend_request ?? null }
}

export const answerSuspendWhenIdle = answerKept(requestBody)

/** DELETE …/suspend-when-idle: in any state, as often as one likes. */
export async function cancelSuspendWhenIdle(call: Call<typeof workspacesCancelSuspendWhenIdle>, deps: ApiDeps): Promise<Reply> {
  await changing(deps, call, async (tx) => {
    const row = await lockForChange(tx, call)
    allowed(row, 'cancel_suspend_when_idle')
    if (row.suspend_requested_at !== null) await writeSuspendRequest(tx, row.id, null, call.now)
  })
  return { status: 200, body: workspaceView(await findWorkspace(deps, call)) }
}
