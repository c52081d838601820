import { Type } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { toolToken } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { cellRoute } from '../../route.ts'
import { ExecParams, Offset } from '../../schemas/cell/session.ts'
import { RunListQuery, TerminalList } from '../../schemas/cell/lists.ts'
import {
  TERMINAL_MESSAGES,
  TerminalEvent,
  TerminalInput,
  TerminalSession,
  TerminalSize,
  TerminalStart,
} from '../../schemas/cell/terminal.ts'
import { Uuid } from '../../schemas/common.ts'

const WorkspaceParams = Type.Object({ workspace_id: Uuid() })
const ERRORS = { not_found: ['session_not_found'] } as const
const CHANGE_CONFLICTS = ['guest_feature_unavailable', 'operation_interrupted'] as const

export const ptyOpen = cellRoute({
  id: 'pty.open',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/pty',
  summary: 'Open a terminal; the same session_id never opens it twice',
  access: toolToken('pty'),
  modes: ['processful'],
  machine: 'asked',
  params: WorkspaceParams,
  body: TerminalStart,
  body_bytes_max: LIMITS.exec.body_bytes_max,
  answers: {
    201: { schema: TerminalSession, description: 'Opened, or `failed_to_start` with the cause in `error`' },
    200: { schema: TerminalSession, description: 'This session exists already; nothing ran again' },
  },
  errors: {
    forbidden: ['secret_not_available'],
    conflict: [...CHANGE_CONFLICTS, 'operation_id_reused'],
    payload_too_large: NO_REASON,
    validation_failed: ['invalid_cwd', 'reserved_prefix', 'env_collision'],
    rate_limited: ['disk_full', 'too_many_sessions'],
  },
})

export const ptyList = cellRoute({
  id: 'pty.list',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/pty',
  summary: `The terminals of the workspace, newest first: all that are open, and the last ${LIMITS.terminal.records_kept_max} that have ended`,
  access: toolToken('pty'),
  modes: ['processful'],
  machine: 'asked',
  params: WorkspaceParams,
  query: RunListQuery,
  answers: { 200: { schema: TerminalList, description: 'One page' } },
  errors: { conflict: ['guest_feature_unavailable'] },
})

export const ptyGet = cellRoute({
  id: 'pty.get',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/pty/{session_id}',
  summary: 'Status of a terminal',
  access: toolToken('pty'),
  modes: ['processful'],
  machine: 'asked',
  params: ExecParams,
  answers: { 200: { schema: TerminalSession, description: 'The terminal' } },
  errors: { ...ERRORS, conflict: ['guest_feature_unavailable'] },
})

export const ptyClose = cellRoute({
  id: 'pty.close',
  method: 'DELETE',
  path: '/v1/workspaces/{workspace_id}/pty/{session_id}',
  summary: "Hang up: SIGHUP to every process group of the terminal's session, SIGKILL after a grace; its output stays",
  access: toolToken('pty'),
  modes: ['processful'],
  machine: 'asked',
  params: ExecParams,
  answers: { 200: { schema: TerminalSession, description: 'The terminal, which may need its grace to end' } },
  errors: { ...ERRORS, conflict: CHANGE_CONFLICTS },
})

export const ptyResize = cellRoute({
  id: 'pty.resize',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/pty/{session_id}/resize',
  summary: "Set the size of a terminal's window",
  access: toolToken('pty'),
  modes: ['processful'],
  machine: 'asked',
  params: ExecParams,
  body: TerminalSize,
  answers: { 200: { schema: TerminalSession, description: 'The terminal' } },
  errors: { ...ERRORS, conflict: [...CHANGE_CONFLICTS, 'session_ended'], validation_failed: NO_REASON },
})

export const ptyInput = cellRoute({
  id: 'pty.input',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/pty/{session_id}/input',
  summary: 'Type into a terminal',
  access: toolToken('pty'),
  modes: ['processful'],
  machine: 'asked',
  params: ExecParams,
  body: TerminalInput,
  answers: { 200: { schema: TerminalSession, description: 'The terminal; its program may not have read yet what was typed' } },
  errors: {
    ...ERRORS,
    conflict: [...CHANGE_CONFLICTS, 'session_ended'],
    validation_failed: NO_REASON,
    payload_too_large: NO_REASON,
    rate_limited: ['terminal_full'],
  },
})

export const ptyAttach = cellRoute({
  id: 'pty.attach',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/pty/{session_id}/attach',
  summary: 'WebSocket on a terminal: its output from an offset on, input and resize',
  access: toolToken('pty'),
  modes: ['processful'],
  machine: 'asked',
  streams: true,
  params: ExecParams,
  query: Type.Object({ offset: Type.Optional(Type.Integer({ ...Offset, default: 0 })) }),
  websocket: { client: Type.Union(Object.values(TERMINAL_MESSAGES)), server: TerminalEvent },
  answers: { 101: { description: 'Events until `exit` (1000), `error` (4000 and its status) or a shutdown of the gateway (1001)' } },
  errors: {
    ...ERRORS,
    conflict: ['guest_feature_unavailable', 'output_expired'],
    validation_failed: NO_REASON,
    payload_too_large: NO_REASON,
    service_unavailable: ['draining', 'too_many_streams'],
  },
})
