import { Type } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { toolToken } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { cellRoute } from '../../route.ts'
import {
  FileInfo,
  FileList,
  FileListQuery,
  FileMkdir,
  FileMove,
  FilePatch,
  FileReadQuery,
  FileRemoveQuery,
  FileStatQuery,
  FileWriteQuery,
  PatchResult,
  WriteResult,
} from '../../schemas/cell/file.ts'
import { IfTreeRevision, KeyedChange, RangeHeader } from '../../schemas/cell/headers.ts'
import { FileSearch, SearchResult } from '../../schemas/cell/search.ts'
import { Uuid } from '../../schemas/common.ts'

const params = Type.Object({ workspace_id: Uuid() })
const READS = { not_found: ['path_not_found', 'outside_tree_root'], validation_failed: ['invalid_path'] }
/** Only file-first workspaces have revisions. */
const READS_REVISIONS = { ...READS, validation_failed: ['invalid_path', 'not_supported_for_mode'] }
const CHANGES = { not_found: ['path_not_found'], validation_failed: ['invalid_path', 'outside_tree_root'] }
const TREE_HEADERS = { 'X-Tree-Revision': 'Of a file-first workspace: the revision of its tree that the answer is of' }
const KEYED_HEADERS = {
  ...TREE_HEADERS,
  'Idempotent-Replayed': 'true: of a file-first workspace, the answer that an earlier call with this key was given',
}
const SERVED_FROM = {
  ...TREE_HEADERS,
  'X-Served-From': 'disk, where the workspace is suspended: it is read as it was when it was suspended',
}
const READ_HEADERS = {
  ...SERVED_FROM,
  'X-File-Size': 'Bytes of the whole file',
  'X-File-Revision': `SHA-256 of the whole file, up to ${LIMITS.file.revision_header_bytes_max} bytes`,
}

export const filesRead = cellRoute({
  id: 'files.read',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/files',
  summary: 'Read a file, whole or a part: offset and length, or a single Range: bytes=start-end',
  access: toolToken('files'),
  machine: 'asked',
  tree: true,
  reads_disk: true,
  params,
  headers: RangeHeader,
  query: FileReadQuery,
  answers: {
    200: { content: { 'application/octet-stream': null }, headers: READ_HEADERS, description: 'The bytes' },
    206: {
      content: { 'application/octet-stream': null },
      headers: { ...READ_HEADERS, 'Content-Range': 'bytes start-end/size' },
      description: 'The bytes of the Range',
    },
  },
  errors: {
    ...READS_REVISIONS,
    conflict: ['not_permitted', 'not_a_file', 'not_a_directory'],
    range_not_satisfiable: NO_REASON,
  },
})

export const filesWrite = cellRoute({
  id: 'files.write',
  method: 'PUT',
  path: '/v1/workspaces/{workspace_id}/files',
  summary: `Replace a file atomically, or append to it; acknowledged when durable. Accepts Idempotency-Key: the last ${LIMITS.file.idempotency_keys_max} of a workspace are remembered`,
  access: toolToken('files'),
  machine: 'asked',
  tree: true,
  params,
  headers: KeyedChange,
  query: FileWriteQuery,
  body: 'bytes',
  body_bytes_max: LIMITS.file.write_bytes_max,
  answers: { 200: { schema: WriteResult, headers: KEYED_HEADERS, description: 'Written' } },
  errors: {
    ...CHANGES,
    conflict: [
      'not_permitted',
      'path_busy',
      'tree_revision_mismatch',
      'not_a_file',
      'not_a_directory',
      'operation_id_reused',
      'operation_interrupted',
    ],
    validation_failed: [null, 'invalid_path', 'outside_tree_root'],
    rate_limited: ['disk_full'],
  },
})

export const filesRemove = cellRoute({
  id: 'files.remove',
  method: 'DELETE',
  path: '/v1/workspaces/{workspace_id}/files',
  summary: 'Remove a file, or a directory with all below it',
  access: toolToken('files'),
  machine: 'asked',
  tree: true,
  params,
  headers: IfTreeRevision,
  query: FileRemoveQuery,
  answers: { 204: { headers: TREE_HEADERS, description: 'Removed' } },
  errors: {
    ...CHANGES,
    conflict: ['not_permitted', 'path_busy', 'tree_revision_mismatch', 'not_empty', 'not_a_directory', 'operation_interrupted'],
  },
})

export const filesStat = cellRoute({
  id: 'files.stat',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/files/stat',
  summary: 'What is at a path',
  access: toolToken('files'),
  machine: 'asked',
  tree: true,
  reads_disk: true,
  params,
  query: FileStatQuery,
  answers: { 200: { schema: FileInfo, headers: SERVED_FROM, description: 'The file' } },
  errors: { ...READS_REVISIONS, conflict: ['not_permitted', 'not_a_directory'] },
})

export const filesList = cellRoute({
  id: 'files.list',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/files/list',
  summary: 'What a directory holds',
  access: toolToken('files'),
  machine: 'asked',
  tree: true,
  reads_disk: true,
  params,
  query: FileListQuery,
  answers: { 200: { schema: FileList, headers: SERVED_FROM, description: 'The entries, by name' } },
  errors: { ...READS_REVISIONS, conflict: ['not_permitted', 'not_a_directory', 'guest_feature_unavailable'] },
})

export const filesMkdir = cellRoute({
  id: 'files.mkdir',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/files/mkdir',
  summary: 'Create a directory',
  access: toolToken('files'),
  machine: 'asked',
  tree: true,
  params,
  headers: IfTreeRevision,
  body: FileMkdir,
  answers: { 201: { schema: FileInfo, headers: TREE_HEADERS, description: 'Created' } },
  errors: {
    ...CHANGES,
    conflict: ['not_permitted', 'tree_revision_mismatch', 'already_exists', 'not_a_directory', 'operation_interrupted'],
    rate_limited: ['disk_full'],
  },
})

export const filesMove = cellRoute({
  id: 'files.move',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/files/move',
  summary: 'Move or rename; a file or link may go to another file system, a directory may not',
  access: toolToken('files'),
  machine: 'asked',
  tree: true,
  params,
  headers: IfTreeRevision,
  body: FileMove,
  answers: { 200: { schema: FileInfo, headers: TREE_HEADERS, description: 'What is at the new path' } },
  errors: {
    ...CHANGES,
    conflict: [
      'not_permitted',
      'path_busy',
      'tree_revision_mismatch',
      'already_exists',
      'not_empty',
      'not_a_file',
      'not_a_directory',
      'different_filesystem',
      'operation_interrupted',
    ],
    rate_limited: ['disk_full'],
  },
})

export const filesSearch = cellRoute({
  id: 'files.search',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/files/search',
  summary: 'Find lines in files; read-only',
  access: toolToken('files'),
  machine: 'asked',
  tree: true,
  reads_disk: true,
  read_only: true,
  params,
  body: FileSearch,
  body_bytes_max: LIMITS.search.body_bytes_max,
  answers: { 200: { schema: SearchResult, headers: SERVED_FROM, description: 'The matches' } },
  errors: { ...READS, conflict: ['not_permitted', 'guest_feature_unavailable', 'not_a_file', 'not_a_directory'] },
})

export const filesPatch = cellRoute({
  id: 'files.patch',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/files/patch',
  summary: 'Change a file atomically by edits, or by its whole content. Accepts Idempotency-Key',
  access: toolToken('files'),
  machine: 'asked',
  tree: true,
  params,
  headers: KeyedChange,
  body: FilePatch,
  body_bytes_max: LIMITS.file.patch_body_bytes_max,
  answers: { 200: { schema: PatchResult, headers: KEYED_HEADERS, description: 'Patched' } },
  errors: {
    ...CHANGES,
    validation_failed: [null, 'invalid_path', 'outside_tree_root', 'edit_not_found', 'edit_ambiguous', 'edit_not_text', 'patch_invalid'],
    conflict: [
      'not_permitted',
      'path_busy',
      'tree_revision_mismatch',
      'guest_feature_unavailable',
      'revision_mismatch',
      'not_a_file',
      'not_a_directory',
      'operation_id_reused',
      'operation_interrupted',
    ],
    payload_too_large: NO_REASON,
    rate_limited: ['disk_full'],
  },
})
