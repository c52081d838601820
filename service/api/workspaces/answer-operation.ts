import type { Reply } from '../../http/call.ts'
import type { ApiDeps } from '../deps.ts'
import type { Outcome } from '../idempotency/store.ts'
import { readOperation } from '../operations/store.ts'
import { operationView } from '../operations/view.ts'
import { readWorkspace } from './store.ts'
import { workspaceView } from './view.ts'

/** 202 with the operation itself, as it is by then. */
export async function answerOperation(_call: unknown, deps: ApiDeps, outcome: Outcome): Promise<Reply> {
  return { status: 202, body: await operationOf(deps, outcome) }
}

/** 202 with the operation and its workspace. */
export async function answerOperationAndWorkspace(_call: unknown, deps: ApiDeps, outcome: Outcome): Promise<Reply> {
  const workspace = await readWorkspace(deps.reads, outcome.workspace_id)
  if (workspace === null) throw new Error('a workspace is gone that a change has just named')
  return { status: 202, body: { operation: await operationOf(deps, outcome), workspace: workspaceView(workspace) } }
}

async function operationOf(deps: ApiDeps, outcome: Outcome) {
  const row = outcome.operation_id === null ? null : await readOperation(deps.reads, outcome.operation_id)
  if (row === null) throw new Error('an operation is gone that a change has just named')
  return operationView(row)
}
