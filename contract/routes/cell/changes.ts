import { Type } from 'typebox'
import { toolToken } from '../../access.ts'
import { cellRoute } from '../../route.ts'
import { Changes, ChangesQuery } from '../../schemas/cell/change.ts'
import { Uuid } from '../../schemas/common.ts'

export const changesList = cellRoute({
  id: 'changes.list',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/changes',
  summary: "What a layered workspace's disk has other than its template",
  access: toolToken('files'),
  modes: ['processful'],
  machine: 'asked',
  params: Type.Object({ workspace_id: Uuid() }),
  query: ChangesQuery,
  answers: { 200: { schema: Changes, description: 'One page, or the summary' } },
  errors: { conflict: ['guest_feature_unavailable', 'legacy_disk_layout', 'host_feature_unavailable'] },
})
