import { Type } from 'typebox'
import { toolToken } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { cellRoute } from '../../route.ts'
import { AttachEvent, COMMAND_MESSAGES } from '../../schemas/cell/attach.ts'
import { ExecParams, Offset } from '../../schemas/cell/session.ts'

export const execAttach = cellRoute({
  id: 'exec.attach',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/exec/{session_id}/attach',
  summary: 'WebSocket on a command: its output from given offsets on, stdin, signals and cancel',
  access: toolToken('exec'),
  modes: ['processful'],
  machine: 'asked',
  streams: true,
  params: ExecParams,
  query: Type.Object({
    stdout_offset: Type.Optional(Type.Integer({ ...Offset, default: 0 })),
    stderr_offset: Type.Optional(Type.Integer({ ...Offset, default: 0 })),
  }),
  websocket: { client: Type.Union(Object.values(COMMAND_MESSAGES)), server: AttachEvent },
  answers: { 101: { description: 'Events until `exit` (1000), `error` (4000 and its status) or a shutdown of the gateway (1001)' } },
  errors: {
    not_found: ['session_not_found'],
    conflict: ['output_expired', 'operation_interrupted', 'stdin_gap', 'guest_feature_unavailable'],
    validation_failed: NO_REASON,
    payload_too_large: NO_REASON,
    service_unavailable: ['draining', 'too_many_streams'],
  },
})
