import type { executionsGet } from '../../../../contract/routes/cell/executions.ts'
import { fail } from '../../../lib/fail.ts'
import type { TreeHandler } from '../tree-calls/calls.ts'
import { viewOf } from './rules.ts'

export const getExecution: TreeHandler<typeof executionsGet> = async (call, { executions }, { entry }) => {
  const row = await executions.find({ workspace_id: entry.id, execution_id: call.params.execution_id })
  if (row === null) throw fail('not_found', null, 'There is no such execution')
  return { status: row.finished_at === null ? 202 : 200, body: viewOf(row) }
}
