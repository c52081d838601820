import { Type } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { cellRoute } from '../../route.ts'
import {
  FileInfo,
  FileList,
  FileListQuery,
  FileMkdir,
  FileMove,
  FileReadQuery,
  FileRemoveQuery,
  FileStatQuery,
  FileWriteQuery,
  WriteResult,
} from '../../schemas/cell/file.ts'
import { Uuid } from '../../schemas/common.ts'
import { GATE_CONFLICTS, GATE_ERRORS } from './gate-errors.ts'

const params = Type.Object({ workspace_id: Uuid() })
const MISSING = { not_found: ['path_not_found'], validation_failed: ['invalid_path'] }
const READ_HEADERS = {
  'X-File-Size': 'Bytes of the whole file',
  'X-File-Revision': `SHA-256 of the whole file, up to ${LIMITS.file_revision_header_bytes_max} bytes`,
}

export const filesRead = cellRoute({
  id: 'files.read',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/files',
  summary: 'Read a file, whole or a part: offset and length, or a single Range: bytes=start-end',
  auth: 'tool_token',
  tool: 'files',
  params,
  query: FileReadQuery,
  answers: {
    200: { content_type: 'application/octet-stream', headers: READ_HEADERS, description: 'The bytes' },
    206: {
      content_type: 'application/octet-stream',
      headers: { ...READ_HEADERS, 'Content-Range': 'bytes start-end/size' },
      description: 'The bytes of the Range',
    },
  },
  errors: { ...GATE_ERRORS, ...MISSING, conflict: [...GATE_CONFLICTS, 'not_a_file'], range_not_satisfiable: [] },
})

export const filesWrite = cellRoute({
  id: 'files.write',
  method: 'PUT',
  path: '/v1/workspaces/{workspace_id}/files',
  summary: 'Replace a file atomically, or append to it; acknowledged when durable. Accepts Idempotency-Key',
  auth: 'tool_token',
  tool: 'files',
  params,
  query: FileWriteQuery,
  body: 'bytes',
  body_bytes_max: LIMITS.file_write_bytes_max,
  answers: { 200: { schema: WriteResult, description: 'Written' } },
  errors: {
    ...GATE_ERRORS,
    ...MISSING,
    conflict: [...GATE_CONFLICTS, 'not_a_file', 'not_a_directory', 'operation_id_reused', 'operation_interrupted'],
    payload_too_large: [],
    rate_limited: ['disk_full'],
  },
})

export const filesRemove = cellRoute({
  id: 'files.remove',
  method: 'DELETE',
  path: '/v1/workspaces/{workspace_id}/files',
  summary: 'Remove a file, or a directory with all below it',
  auth: 'tool_token',
  tool: 'files',
  params,
  query: FileRemoveQuery,
  answers: { 204: { description: 'Removed' } },
  errors: { ...GATE_ERRORS, ...MISSING, conflict: [...GATE_CONFLICTS, 'not_empty', 'not_a_directory', 'operation_interrupted'] },
})

export const filesStat = cellRoute({
  id: 'files.stat',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/files/stat',
  summary: 'What is at a path',
  auth: 'tool_token',
  tool: 'files',
  params,
  query: FileStatQuery,
  answers: { 200: { schema: FileInfo, description: 'The file' } },
  errors: { ...GATE_ERRORS, ...MISSING, conflict: GATE_CONFLICTS },
})

export const filesList = cellRoute({
  id: 'files.list',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/files/list',
  summary: 'What a directory holds',
  auth: 'tool_token',
  tool: 'files',
  params,
  query: FileListQuery,
  answers: { 200: { schema: FileList, description: 'The entries, by name' } },
  errors: { ...GATE_ERRORS, ...MISSING, conflict: [...GATE_CONFLICTS, 'not_a_directory'] },
})

export const filesMkdir = cellRoute({
  id: 'files.mkdir',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/files/mkdir',
  summary: 'Create a directory',
  auth: 'tool_token',
  tool: 'files',
  params,
  body: FileMkdir,
  answers: { 201: { schema: FileInfo, description: 'Created' } },
  errors: {
    ...GATE_ERRORS,
    ...MISSING,
    conflict: [...GATE_CONFLICTS, 'already_exists', 'not_a_directory', 'operation_interrupted'],
    rate_limited: ['disk_full'],
  },
})

export const filesMove = cellRoute({
  id: 'files.move',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/files/move',
  summary: 'Move or rename',
  auth: 'tool_token',
  tool: 'files',
  params,
  body: FileMove,
  answers: { 200: { schema: FileInfo, description: 'What is at the new path' } },
  errors: {
    ...GATE_ERRORS,
    ...MISSING,
    conflict: [...GATE_CONFLICTS, 'already_exists', 'not_empty', 'not_a_file', 'not_a_directory', 'operation_interrupted'],
    rate_limited: ['disk_full'],
  },
})
