import type { agentSessionsList } from '../../../../contract/routes/app/tool-tokens.ts'
import type { AgentSession } from '../../../../contract/schemas/tool-tokens.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { findWorkspace } from '../find.ts'
import { listAgentSessions, type AgentSessionRow } from './store.ts'
import type { PageDeps } from '../../calls/deps.ts'

export async function listAgentSessionsOfWorkspace(call: Call<typeof agentSessionsList>, deps: PageDeps): Promise<Reply> {
  const workspace = await findWorkspace(deps, call)
  const rows = await listAgentSessions(deps.reads, workspace.id, pageOf(deps.cursor_keys, call))
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, agentSessionView) }
}

function agentSessionView(row: AgentSessionRow): AgentSession {
  return {
    id: row.id,
    workspace_id: row.workspace_id,
    agent_label: row.agent_label,
    principal: { type: row.principal_type, id: row.principal_id },
    created_at: row.created_at.toISOString(),
    last_used_at: row.last_used_at.toISOString(),
  }
}
