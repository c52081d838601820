import type { operationsGet } from '../../../../contract/routes/app/operations.ts'
import { isTerminal } from '../../../../contract/states/operation.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { maySeeScope, notFound, watchesEnd } from '../../calls/scope.ts'
import { readOperation } from './store.ts'
import { operationView, type OperationRow } from './view.ts'
import type { ReadDeps } from '../../calls/deps.ts'
import type { WorkspaceDeps } from '../deps.ts'

/** Waits for a change of state or state_reason. */
export async function getOperation(call: Call<typeof operationsGet>, deps: ReadDeps & Pick<WorkspaceDeps, 'waits'>): Promise<Reply> {
  const row = await readOperation(deps.reads, call.params.operation_id)
  if (row === null || !(maySeeScope(call.who, row) || watchesEnd(call.who, row))) throw notFound('operation')
  if (call.wait_seconds === 0 || isTerminal(row.state)) return { status: 200, body: operationView(row) }
  const has_changed = (later: OperationRow) => later.state !== row.state || later.state_reason !== row.state_reason
  const held = await deps.waits.until(row.id, has_changed, call.wait_seconds, call.signal)
  const headers: Record<string, string> = held.waited ? { 'preference-applied': `wait=${call.wait_seconds}` } : {}
  return { status: 200, body: operationView(held.row ?? row), headers }
}
