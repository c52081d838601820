import { Type } from 'typebox'
import { cellRoute } from '../../route.ts'
import { COMMAND_MESSAGES } from '../../schemas/cell/attach.ts'
import { ExecParams, Offset, OutputEvent } from '../../schemas/cell/session.ts'
import { GATE_CONFLICTS, GATE_ERRORS } from './gate-errors.ts'

export const execAttach = cellRoute({
  id: 'exec.attach',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/exec/{session_id}/attach',
  summary: 'WebSocket on a command: its output from given offsets on, signals and cancel',
  auth: 'tool_token',
  tool: 'exec',
  params: ExecParams,
  query: Type.Object({
    stdout_offset: Type.Optional(Type.Integer({ ...Offset, default: 0 })),
    stderr_offset: Type.Optional(Type.Integer({ ...Offset, default: 0 })),
  }),
  websocket: { client: Type.Union(Object.values(COMMAND_MESSAGES)), server: OutputEvent },
  answers: { 101: { description: 'Events until `exit` (1000), `error` (4000 and its status) or a shutdown of the gateway (1001)' } },
  errors: {
    ...GATE_ERRORS,
    not_found: ['session_not_found'],
    conflict: [...GATE_CONFLICTS, 'output_expired', 'operation_interrupted'],
    validation_failed: [],
    payload_too_large: [],
    service_unavailable: ['draining', 'too_many_streams'],
  },
})
