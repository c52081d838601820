import type { workspacesResume } from '../../../contract/routes/app/lifecycle.ts'
import type { workspacesOpen } from '../../../contract/routes/app/workspaces.ts'
import type { Operation } from '../../../contract/schemas/operations.ts'
import type { ToolToken } from '../../../contract/schemas/tool-tokens.ts'
import type { Workspace } from '../../../contract/schemas/workspaces.ts'
import { isTerminal } from '../../../contract/states/operation.ts'
import type { Call, Reply } from '../../http/call.ts'
import { permittedTools } from '../auth/scope.ts'
import type { ApiDeps } from '../deps.ts'
import { hasKey, keepStatus, type Outcome } from '../idempotency/store.ts'
import { readOperation } from '../operations/store.ts'
import { operationView } from '../operations/view.ts'
import { mintTokenOrNull } from '../tool-tokens/mint.ts'
import { isReady, type WorkspaceRow } from './row.ts'
import { readWorkspace } from './store.ts'
import { workspaceView } from './view.ts'

type StartCall = Call<typeof workspacesOpen> | Call<typeof workspacesResume>

export interface Started {
  workspace: Workspace
  operation: Operation | null
  cell_endpoint: string | null
  tool_token: ToolToken | null
}

/**
 * Answers an open or a resume: 200 with a token when the workspace is there, else 202 with the operation, after waiting for it
 * as long as the caller asked (App, open rule 4). What was answered with 200 once is 200 for every repeat, with a token where it
 * still can have one.
 */
export async function answerStart(
  call: StartCall,
  deps: ApiDeps,
  outcome: Outcome,
  known: WorkspaceRow | undefined,
  accepted: (started: Started) => Partial<Started>,
): Promise<Reply> {
  const { operation, waited } = await operationOf(call, deps, outcome)
  const row = known ?? (await readWorkspace(deps.reads, outcome.workspace_id))
  if (row === null) throw new Error('a workspace is gone that a change has just named')
  const headers: Record<string, string> = waited ? { 'preference-applied': `wait=${call.wait_seconds}` } : {}
  const started = { workspace: workspaceView(row), operation, cell_endpoint: row.cell_endpoint }
  const has_ended_well = waited && operation?.state === 'succeeded' && isReady(row)
  const is_success = outcome.status === 200 || has_ended_well
  if (!is_success) return { status: 202, body: accepted({ ...started, tool_token: null }), headers }
  if (outcome.status !== 200 && hasKey(call)) await keepStatus(deps.db, call, 200)
  const tool_token = isReady(row) ? await mintTokenOrNull(deps, row, wish(call, row)) : null
  return { status: 200, body: { ...started, tool_token }, headers }
}

function wish({ who, now, body }: StartCall, row: WorkspaceRow) {
  return { who, now, agent_label: body.agent_label, tools: body.tools ?? permittedTools(who, row.organization_id) }
}

async function operationOf(
  call: StartCall,
  deps: ApiDeps,
  { operation_id }: Outcome,
): Promise<{ operation: Operation | null; waited: boolean }> {
  if (operation_id === null) return { operation: null, waited: false }
  const held =
    call.wait_seconds > 0
      ? await deps.waits.until(operation_id, (row) => isTerminal(row.state), call.wait_seconds, call.signal)
      : { row: null, waited: false }
  const row = held.row ?? (await readOperation(deps.reads, operation_id))
  return { operation: row === null ? null : operationView(row), waited: held.waited }
}
