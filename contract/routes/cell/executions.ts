import { Type } from 'typebox'
import { LIMITS } from '../../limits.ts'
import { toolToken } from '../../access.ts'
import { cellRoute } from '../../route.ts'
import { Uuid } from '../../schemas/common.ts'

const { id_characters_min: shortest, id_characters_max: longest } = LIMITS.execution

/** Cell, File-first rules 6: executions are of file-first workspaces, which nothing serves yet, so there is nothing to answer but that. */
export const executionsGet = cellRoute({
  id: 'executions.get',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/executions/{execution_id}',
  summary: 'Result of an execution of a file-first workspace; any other workspace refuses it',
  access: toolToken('exec'),
  modes: ['file_first'],
  params: Type.Object({
    workspace_id: Uuid(),
    execution_id: Type.String({ pattern: `^[A-Za-z0-9][A-Za-z0-9._:-]{${shortest - 1},${longest - 1}}$` }),
  }),
  answers: {},
  errors: {},
})
