import type { toolTokensCreate } from '../../../../contract/routes/app/tool-tokens.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { requestedTools } from '../../calls/scope.ts'
import { byCaller } from '../../calls/by-caller.ts'
import { findWorkspace } from '../find.ts'
import { allowed } from '../refusals.ts'
import { mintToken } from './mint.ts'
import type { CallDeps, ReadDeps } from '../../calls/deps.ts'
import type { WorkspaceDeps } from '../deps.ts'

/** See the specification (App, "Tool-token rules"). */
export async function createToolToken(
  call: Call<typeof toolTokensCreate>,
  deps: ReadDeps & Pick<CallDeps, 'clock' | 'ids' | 'base_url' | 'logger'> & Pick<WorkspaceDeps, 'signer'>,
): Promise<Reply> {
  const { who, now, body } = call
  const workspace = await findWorkspace(deps, call)
  const tools = requestedTools(who, workspace.organization_id, body.tools)
  allowed(workspace, 'tool_token')
  return { status: 201, body: await mintToken(deps, workspace, { who, now, agent_label: body.agent_label, tools }, byCaller(deps, call)) }
}
