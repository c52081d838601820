import Type from 'typebox'
import { readers } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { Uuid } from '../../schemas/common.ts'
import { Operation, OperationList, OperationQuery } from '../../schemas/operations.ts'
import { preferenceApplied, workspaceParams } from './workspaces.ts'

export const operationsGet = appRoute({
  id: 'operations.get',
  method: 'GET',
  path: '/v1/operations/{operation_id}',
  summary: 'One operation; held until its state or state_reason changes when asked to wait',
  access: readers('operation'),
  waits: true,
  params: Type.Object({ operation_id: Uuid() }),
  answers: { 200: { schema: Operation, headers: preferenceApplied, description: 'The operation' } },
  errors: { not_found: NO_REASON },
})

export const operationsList = appRoute({
  id: 'operations.list',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/operations',
  summary: 'Operations of a workspace, newest first',
  access: readers('workspace'),
  params: workspaceParams,
  query: OperationQuery,
  answers: { 200: { schema: OperationList, description: 'Operations' } },
  errors: { not_found: NO_REASON },
})
