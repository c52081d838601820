import type { Reader } from '../../db/reader.ts'
import type { Call, Reply } from '../../http/call.ts'
import type { ApiDeps } from '../deps.ts'
import { change, type Work } from '../idempotency/change.ts'
import type { Outcome, Render } from '../idempotency/store.ts'
import { readOperation } from '../operations/store.ts'
import { operationView } from '../operations/view.ts'
import { readWorkspace } from './store.ts'
import { workspaceView } from './view.ts'

/** The operation itself. */
export async function operationBody(reads: Reader, { operation_id }: Outcome) {
  const row = operation_id === null ? null : await readOperation(reads, operation_id)
  if (row === null) throw new Error('an operation is gone that a change has just named')
  return operationView(row)
}

/** The operation and its workspace. */
export async function operationAndWorkspaceBody(reads: Reader, outcome: Outcome) {
  return { operation: await operationBody(reads, outcome), workspace: await workspaceBody(reads, outcome) }
}

export async function workspaceBody(reads: Reader, { workspace_id }: Outcome) {
  const row = await readWorkspace(reads, workspace_id)
  if (row === null) throw new Error('a workspace is gone that a change has just named')
  return workspaceView(row)
}

/** Answers what a change has kept: the first call and every repeat get the same bytes (App, "Limits": responses are stored). */
export function answerKept(render: Render) {
  return async (_call: unknown, deps: ApiDeps, outcome: Outcome): Promise<Reply> => {
    const { status, body } = outcome
    // An outcome that a version before this one kept has no body: after an upgrade its repeats are answered from what is there.
    return { status, json: body ?? JSON.stringify(await render(deps.reads, outcome)) }
  }
}

export const answerOperation = answerKept(operationBody)
export const answerOperationAndWorkspace = answerKept(operationAndWorkspaceBody)

/** Makes a change and answers it with what it has kept. */
export async function changeAndAnswer(deps: ApiDeps, call: Call, work: Work, render: Render): Promise<Reply> {
  return answerKept(render)(call, deps, await change(deps, call, work, render))
}
