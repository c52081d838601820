import { Type } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { toolToken } from '../../access.ts'
import { NO_REASON, START_REASONS } from '../../errors.ts'
import { cellRoute } from '../../route.ts'
import {
  ExecOutputQuery,
  ExecParams,
  ExecSession,
  ExecSignal,
  ExecStart,
  ExecStdin,
  ExecStdinQuery,
  OutputEvent,
} from '../../schemas/cell/session.ts'
import { Execution } from '../../schemas/cell/execution.ts'
import { CommandList, RunListQuery } from '../../schemas/cell/lists.ts'
import { Uuid } from '../../schemas/common.ts'

const WorkspaceParams = Type.Object({ workspace_id: Uuid() })
const Started = Type.Union([ExecSession, Execution])
const UNKNOWN_SESSION = { not_found: ['session_not_found'] }

export const execStart = cellRoute({
  id: 'exec.start',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/exec',
  summary:
    'Start a command without a shell; the same session_id never starts it twice. On a file-first workspace, run it to its end; the same execution_id never runs twice',
  access: toolToken('exec'),
  machine: 'asked',
  tree: true,
  params: WorkspaceParams,
  body: ExecStart,
  body_bytes_max: LIMITS.exec.body_bytes_max,
  answers: {
    201: {
      schema: Started,
      description: 'Started, or `failed_to_start` with the cause in `error`; on a file-first workspace: this call ran it, and it has ended',
    },
    200: { schema: Started, description: 'This session or execution exists already; nothing ran again' },
  },
  errors: {
    ...START_REASONS, // a command of a file-first workspace is admitted like a start
    forbidden: ['secret_not_available'],
    conflict: ['operation_id_reused', 'operation_interrupted', 'execution_id_reused', 'guest_feature_unavailable'],
    service_unavailable: ['no_execution_host'],
    payload_too_large: NO_REASON,
    validation_failed: ['invalid_cwd', 'reserved_prefix', 'env_collision', 'not_supported_for_mode'],
    rate_limited: ['disk_full', 'too_many_sessions'],
  },
})

export const execList = cellRoute({
  id: 'exec.list',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/exec',
  summary: `The commands of the workspace, newest first: all that run, and the last ${LIMITS.exec.records_kept_max} that have ended`,
  access: toolToken('exec'),
  modes: ['processful'],
  machine: 'asked',
  params: WorkspaceParams,
  query: RunListQuery,
  answers: { 200: { schema: CommandList, description: 'One page' } },
  errors: { conflict: ['guest_feature_unavailable'] },
})

export const execGet = cellRoute({
  id: 'exec.get',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/exec/{session_id}',
  summary: 'Status of a command',
  access: toolToken('exec'),
  modes: ['processful'],
  machine: 'asked',
  params: ExecParams,
  answers: { 200: { schema: ExecSession, description: 'The command' } },
  errors: { ...UNKNOWN_SESSION },
})

export const execOutput = cellRoute({
  id: 'exec.output',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/exec/{session_id}/output',
  summary: 'Output of a command from given offsets on; Server-Sent Events with `Accept: text/event-stream`',
  access: toolToken('exec'),
  modes: ['processful'],
  machine: 'asked',
  streams: true,
  params: ExecParams,
  query: ExecOutputQuery,
  answers: {
    200: {
      content: { 'application/x-ndjson': OutputEvent, 'text/event-stream': OutputEvent },
      description:
        'One event a line, the last is `exit` or `error`; with `follow=false` what there is. Bytes that are no longer retained are an `error` event `conflict` with reason `output_expired` and `details.available_from`, never skipped',
    },
  },
  errors: {
    ...UNKNOWN_SESSION,
    conflict: ['output_expired'],
    service_unavailable: ['draining', 'too_many_streams'],
  },
})

export const execStdin = cellRoute({
  id: 'exec.stdin',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/exec/{session_id}/stdin',
  summary: 'Write to the stdin of a command that was started with `stdin_open`; the same bytes at the same offset are written once',
  access: toolToken('exec'),
  modes: ['processful'],
  machine: 'asked',
  params: ExecParams,
  query: ExecStdinQuery,
  body: 'bytes',
  body_bytes_max: LIMITS.exec.stdin_bytes_max,
  answers: {
    200: {
      schema: ExecStdin,
      description: `How far it came: less than was sent where the command has read nothing for ${LIMITS.exec.stdin_wait_seconds} seconds`,
    },
  },
  errors: {
    ...UNKNOWN_SESSION,
    conflict: ['stdin_gap', 'stdin_closed', 'guest_feature_unavailable'],
    payload_too_large: NO_REASON,
  },
})

export const execSignal = cellRoute({
  id: 'exec.signal',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/exec/{session_id}/signal',
  summary: "Send a signal to a command's process group",
  access: toolToken('exec'),
  modes: ['processful'],
  machine: 'asked',
  params: ExecParams,
  body: ExecSignal,
  answers: { 200: { schema: ExecSession, description: 'The command' } },
  errors: { ...UNKNOWN_SESSION, validation_failed: NO_REASON, conflict: ['session_ended', 'operation_interrupted'] },
})

export const execCancel = cellRoute({
  id: 'exec.cancel',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/exec/{session_id}/cancel',
  summary: 'SIGTERM to the process group, SIGKILL after the grace',
  access: toolToken('exec'),
  modes: ['processful'],
  machine: 'asked',
  params: ExecParams,
  answers: { 200: { schema: ExecSession, description: 'The command' } },
  errors: { ...UNKNOWN_SESSION, conflict: ['operation_interrupted'] },
})
