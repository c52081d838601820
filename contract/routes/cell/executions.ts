import { Type } from 'typebox'
import { toolToken } from '../../access.ts'
import { LIMITS } from '../../limits.ts'
import { NO_REASON } from '../../errors.ts'
import { cellRoute } from '../../route.ts'
import { Execution, ExecutionId } from '../../schemas/cell/execution.ts'
import { ExecutionList, RunListQuery } from '../../schemas/cell/lists.ts'
import { Uuid } from '../../schemas/common.ts'

export const executionsGet = cellRoute({
  id: 'executions.get',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/executions/{execution_id}',
  summary: 'Result of a command of a file-first workspace; results are kept for 7 days',
  access: toolToken('exec'),
  modes: ['file_first'],
  params: Type.Object({ workspace_id: Uuid(), execution_id: ExecutionId }),
  answers: {
    200: { schema: Execution, description: 'It has ended' },
    202: { schema: Execution, description: 'It is queued or running' },
  },
  errors: { not_found: NO_REASON },
})

export const executionsList = cellRoute({
  id: 'executions.list',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/executions',
  summary: `The commands of a file-first workspace, newest first: those of the last ${LIMITS.execution.kept_days} days`,
  access: toolToken('exec'),
  modes: ['file_first'],
  params: Type.Object({ workspace_id: Uuid() }),
  query: RunListQuery,
  answers: { 200: { schema: ExecutionList, description: 'One page' } },
  errors: {},
})
