import type { ToolCaller } from '../../service/http/call.ts'

export const tool_caller: ToolCaller = {
  type: 'tool_token',
  principal_type: 'api_key',
  principal_id: 'k',
  workspace_id: 'w',
  ownership_epoch: 1,
  agent_session_id: 's',
  person_session_id: null,
  tools: [],
  issued_at_seconds: 0,
  expires_at_seconds: 1,
}
