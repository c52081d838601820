import { Type } from 'typebox'
import { cellRoute } from '../../route.ts'
import { Changes, ChangesQuery } from '../../schemas/cell/change.ts'
import { Uuid } from '../../schemas/common.ts'
import { FEATURE_CONFLICTS, GATE_ERRORS } from './gate-errors.ts'

export const changesList = cellRoute({
  id: 'changes.list',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/changes',
  summary: "What a layered workspace's disk has other than its template",
  auth: 'tool_token',
  tool: 'files',
  params: Type.Object({ workspace_id: Uuid() }),
  query: ChangesQuery,
  answers: { 200: { schema: Changes, description: 'One page, or the summary' } },
  errors: { ...GATE_ERRORS, conflict: [...FEATURE_CONFLICTS, 'legacy_disk_layout', 'host_feature_unavailable'] },
})
