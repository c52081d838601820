import type { workspacesCancelSuspendWhenIdle, workspacesSuspendWhenIdle } from '../../../contract/routes/app/lifecycle.ts'
import type { SuspendRequest } from '../../../contract/schemas/workspaces.ts'
import type { Call, Reply } from '../../http/call.ts'
import type { ApiDeps } from '../deps.ts'
import { change } from '../idempotency/change.ts'
import type { Outcome } from '../idempotency/store.ts'
import { readOperation } from '../operations/store.ts'
import { operationView } from '../operations/view.ts'
import { findWorkspace, lockForChange } from './find.ts'
import { allowed, joined } from './refusals.ts'
import { readWorkspace } from './store.ts'
import { suspendRequestView, workspaceView } from './view.ts'
import { writeSuspendRequest } from './write-store.ts'

/** POST /v1/workspaces/{workspace_id}/suspend-when-idle: no operation; the cell's idle clock acts on it. */
export async function requestSuspendWhenIdle(call: Call<typeof workspacesSuspendWhenIdle>, deps: ApiDeps): Promise<Reply> {
  const { now, body } = call
  const outcome = await change(deps, call, async (tx) => {
    const row = await lockForChange(tx, call)
    if (allowed(row, 'suspend_when_idle').kind === 'join') {
      return { status: 202, workspace_id: row.id, operation_id: joined(row), suspend_request: null }
    }
    const not_before = new Date(now.getTime() + body.after_seconds * 1000)
    const asked = { requested_at: now, after_seconds: body.after_seconds, not_before }
    await writeSuspendRequest(tx, row.id, asked, now)
    return { status: 202, workspace_id: row.id, operation_id: null, suspend_request: suspendRequestView(asked) }
  })
  return answerSuspendWhenIdle(call, deps, outcome)
}

export async function answerSuspendWhenIdle(_call: unknown, deps: ApiDeps, outcome: Outcome): Promise<Reply> {
  const workspace = await readWorkspace(deps.reads, outcome.workspace_id)
  if (workspace === null) throw new Error('a workspace is gone that a change has just named')
  const operation = outcome.operation_id === null ? null : await readOperation(deps.reads, outcome.operation_id)
  const suspend_request: SuspendRequest | null = outcome.suspend_request ?? null
  const body = { workspace: workspaceView(workspace), operation: operation === null ? null : operationView(operation), suspend_request }
  return { status: 202, body }
}

/** DELETE …/suspend-when-idle: in any state, as often as one likes. */
export async function cancelSuspendWhenIdle(call: Call<typeof workspacesCancelSuspendWhenIdle>, deps: ApiDeps): Promise<Reply> {
  await deps.db.transaction().execute(async (tx) => {
    const row = await lockForChange(tx, call)
    allowed(row, 'cancel_suspend_when_idle')
    if (row.suspend_requested_at !== null) await writeSuspendRequest(tx, row.id, null, call.now)
  })
  return { status: 200, body: workspaceView(await findWorkspace(deps, call)) }
}
