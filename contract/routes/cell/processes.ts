import { Type } from 'typebox'
import { cellRoute } from '../../route.ts'
import { ProcessList, ProcessListQuery, ProcessParams, ProcessSignal } from '../../schemas/cell/process.ts'
import { Uuid } from '../../schemas/common.ts'
import { FEATURE_CONFLICTS, GATE_ERRORS } from './gate-errors.ts'

export const processList = cellRoute({
  id: 'processes.list',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/processes',
  summary: 'The processes of the workspace, by pid',
  auth: 'tool_token',
  tool: 'process',
  params: Type.Object({ workspace_id: Uuid() }),
  query: ProcessListQuery,
  answers: { 200: { schema: ProcessList, description: 'The processes' } },
  errors: { ...GATE_ERRORS, conflict: FEATURE_CONFLICTS },
})

export const processSignal = cellRoute({
  id: 'processes.signal',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/processes/{pid}/signal',
  summary: 'Send a signal to one process',
  auth: 'tool_token',
  tool: 'process',
  params: ProcessParams,
  body: ProcessSignal,
  answers: { 204: { description: 'Sent' } },
  errors: {
    ...GATE_ERRORS,
    not_found: ['process_not_found'],
    validation_failed: [],
    conflict: [...FEATURE_CONFLICTS, 'operation_interrupted'],
  },
})
