import { Type } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { toolToken } from '../../access.ts'
import { cellRoute } from '../../route.ts'
import { TarReadQuery, TarResult, TarWriteQuery } from '../../schemas/cell/tar.ts'
import { IfTreeRevision } from '../../schemas/cell/headers.ts'
import { Uuid } from '../../schemas/common.ts'

const params = Type.Object({ workspace_id: Uuid() })
const headers = { 'X-Tree-Revision': 'Of a file-first workspace: the revision of its tree that the answer is of' }

export const filesTarRead = cellRoute({
  id: 'files.tar_read',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/files/tar',
  summary: 'A directory with all below it, as a tar: files, directories and symbolic links, with modes, times and owners',
  access: toolToken('files'),
  machine: 'asked',
  tree: true,
  params,
  query: TarReadQuery,
  answers: {
    200: {
      content: { 'application/x-tar': null },
      headers,
      description: 'The tar. One that is not whole breaks off, before its end is told',
    },
  },
  errors: {
    not_found: ['path_not_found', 'outside_tree_root'],
    validation_failed: ['invalid_path', 'not_supported_for_mode'],
    conflict: ['not_permitted', 'not_a_directory', 'guest_feature_unavailable'],
  },
})

export const filesTarWrite = cellRoute({
  id: 'files.tar_write',
  method: 'PUT',
  path: '/v1/workspaces/{workspace_id}/files/tar',
  summary: 'Put what is in a tar below a directory: all of it, or nothing where any of it is refused',
  access: toolToken('files'),
  machine: 'asked',
  tree: true,
  params,
  headers: IfTreeRevision,
  query: TarWriteQuery,
  body: 'bytes',
  body_bytes_max: LIMITS.tar.upload_bytes_max,
  answers: { 200: { schema: TarResult, headers, description: 'Unpacked' } },
  errors: {
    not_found: ['path_not_found'],
    validation_failed: [null, 'invalid_path', 'outside_tree_root'],
    conflict: [
      'not_permitted',
      'path_busy',
      'tree_revision_mismatch',
      'not_a_file',
      'not_a_directory',
      'guest_feature_unavailable',
      'operation_interrupted',
    ],
    rate_limited: ['disk_full'],
  },
})
