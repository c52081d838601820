import { Type } from 'typebox'
import { toolToken } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { cellRoute } from '../../route.ts'
import { Changes } from '../../schemas/cell/change.ts'
import { TreeDiffQuery, TreeRestore, TreeRestored, TreeRevisions, TreeRevisionsQuery } from '../../schemas/cell/tree.ts'
import { IfTreeRevision } from '../../schemas/cell/headers.ts'
import { Uuid } from '../../schemas/common.ts'

const params = Type.Object({ workspace_id: Uuid() })
const headers = (said: string) => ({ 'X-Tree-Revision': said })

export const treeRevisions = cellRoute({
  id: 'tree.revisions',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/tree/revisions',
  summary: 'The revisions of a file-first workspace that are kept, newest first: when each was made, by what, and what it changed',
  access: toolToken('files'),
  modes: ['file_first'],
  tree: true,
  params,
  query: TreeRevisionsQuery,
  answers: { 200: { schema: TreeRevisions, headers: headers('The current revision'), description: 'One page' } },
  errors: {},
})

export const treeDiff = cellRoute({
  id: 'tree.diff',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/tree/diff',
  summary: 'What one kept revision has other than another',
  access: toolToken('files'),
  modes: ['file_first'],
  tree: true,
  params,
  query: TreeDiffQuery,
  answers: { 200: { schema: Changes, headers: headers('The revision that is compared'), description: 'One page, or the summary' } },
  errors: {},
})

export const treeRestore = cellRoute({
  id: 'tree.restore',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/tree/restore',
  summary: 'Make the files of a kept revision the next revision',
  access: toolToken('files'),
  modes: ['file_first'],
  tree: true,
  params,
  headers: IfTreeRevision,
  body: TreeRestore,
  answers: { 200: { schema: TreeRestored, headers: headers('The revision that it made'), description: 'Restored' } },
  errors: { conflict: ['tree_revision_mismatch'], rate_limited: ['disk_full'], not_found: NO_REASON },
})
