import { workspacesResume } from '../../../contract/routes/app/lifecycle.ts'
import type {
  draftsCreate,
  draftsCreateOfOrganization,
  draftTestInstancesCreate,
  draftTestInstancesCreateOfOrganization,
} from '../../../contract/routes/app/template-drafts.ts'
import type { testInstancesCreate, testInstancesCreateOfOrganization } from '../../../contract/routes/app/test-instances.ts'
import type { workspacesOpen } from '../../../contract/routes/app/workspaces.ts'
import type { Operation } from '../../../contract/schemas/operations.ts'
import type { ToolToken } from '../../../contract/schemas/tool-tokens.ts'
import type { Ignorable, Workspace } from '../../../contract/schemas/workspaces.ts'
import { isTerminal } from '../../../contract/states/operation.ts'
import type { Call, Reply } from '../../http/call.ts'
import { permittedTools } from '../calls/scope.ts'
import { byCaller } from '../calls/by-caller.ts'
import { repeatHeaders, type Changed } from '../calls/idempotency/change.ts'
import { hasKey, keepStatus, type Outcome } from '../calls/idempotency/store.ts'
import { newestOperation, readOperation } from './operations/store.ts'
import { operationView } from './operations/view.ts'
import { mintTokenOrNull } from './tool-tokens/mint.ts'
import { isReady, isRunning, type WorkspaceRow } from './row.ts'
import { readWorkspace } from './store.ts'
import { workspaceView } from './view.ts'
import type { AnswerDeps, WorkspaceDeps } from './deps.ts'
import type { ReadDeps } from '../calls/deps.ts'

type StartCall =
  | Call<typeof workspacesOpen>
  | Call<typeof workspacesResume>
  | Call<typeof testInstancesCreate>
  | Call<typeof testInstancesCreateOfOrganization>
  | Call<typeof draftsCreate>
  | Call<typeof draftsCreateOfOrganization>
  | Call<typeof draftTestInstancesCreate>
  | Call<typeof draftTestInstancesCreateOfOrganization>

export interface Started {
  workspace: Workspace
  operation: Operation | null
  cell_endpoint: string | null
  tool_token: ToolToken | null
  ignored?: Ignorable[]
}

/**
 * See the specification (App, "Open rules" 4). A resume requires only a running workspace, because one with a failed start-up still serves
 * tools.
 * A repeated 200 needs a ready workspace, too: after a 200 the caller calls tools.
 */
export async function answerStart(
  call: StartCall,
  deps: AnswerDeps,
  outcome: Changed,
  known: WorkspaceRow | undefined,
  accepted: (started: Started) => Partial<Started>,
  more: object = {},
): Promise<Reply> {
  const { operation, waited } = await operationOf(call, deps, outcome)
  const row = known ?? (outcome.workspace_id === null ? null : await readWorkspace(deps.reads, outcome.workspace_id))
  if (row === null) throw new Error('a workspace is gone that a change has just named')
  const applied: Record<string, string> = waited ? { 'preference-applied': `wait=${call.wait_seconds}` } : {}
  const headers = { ...applied, ...repeatHeaders(outcome.replayed) }
  const { ignored } = outcome
  const started = { workspace: workspaceView(row), operation, cell_endpoint: row.cell_endpoint, ...(ignored ? { ignored } : {}) }
  const was_success = outcome.status === 200
  const is_there = call.route.id === workspacesResume.id ? isRunning(row) : isReady(row)
  const is_success = is_there && (was_success || (waited && operation?.state === 'succeeded'))
  if (!is_success) {
    const last = operation === null && was_success ? await newestOperation(deps.reads, row.id) : null
    const body = { ...more, ...accepted({ ...started, operation: last === null ? operation : operationView(last), tool_token: null }) }
    return { status: 202, body, headers }
  }
  if (!was_success && hasKey(call)) await keepStatus(deps.db, call, 200)
  return {
    status: 200,
    body: {
      ...more,
      ...started,
      tool_token: await mintTokenOrNull(deps, row, wish(call, row), outcome.recorded ? null : byCaller(deps, call)),
    },
    headers,
  }
}

function wish({ who, now, body }: StartCall, row: WorkspaceRow) {
  return { who, now, agent_label: body.agent_label, tools: body.tools ?? permittedTools(who, row.organization_id) }
}

async function operationOf(
  call: StartCall,
  deps: ReadDeps & Pick<WorkspaceDeps, 'waits'>,
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
