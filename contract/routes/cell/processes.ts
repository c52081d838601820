import { Type } from 'typebox'
import { toolToken } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { cellRoute } from '../../route.ts'
import { ProcessList, ProcessListQuery, ProcessParams, ProcessSignal } from '../../schemas/cell/process.ts'
import { Uuid } from '../../schemas/common.ts'

export const processList = cellRoute({
  id: 'processes.list',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/processes',
  summary: 'The processes of the workspace, by pid',
  access: toolToken('process'),
  modes: ['processful'],
  machine: 'asked',
  params: Type.Object({ workspace_id: Uuid() }),
  query: ProcessListQuery,
  answers: { 200: { schema: ProcessList, description: 'The processes' } },
  errors: { conflict: ['guest_feature_unavailable'] },
})

export const processSignal = cellRoute({
  id: 'processes.signal',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/processes/{pid}/signal',
  summary: 'Send a signal to one process',
  access: toolToken('process'),
  modes: ['processful'],
  machine: 'asked',
  params: ProcessParams,
  body: ProcessSignal,
  answers: { 204: { description: 'Sent' } },
  errors: {
    not_found: ['process_not_found'],
    validation_failed: NO_REASON,
    conflict: ['guest_feature_unavailable', 'operation_interrupted'],
  },
})
