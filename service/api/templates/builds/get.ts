import type { templateBuildsGet } from '../../../../contract/routes/app/template-builds.ts'
import { isTerminal } from '../../../../contract/states/operation.ts'
import type { Call, Principal, Reply } from '../../../http/call.ts'
import type { Reader } from '../../../db/reader.ts'
import { maySee, notFound } from '../../calls/scope.ts'
import type { OperationRow } from '../../workspaces/operations/view.ts'
import { readBuild, type BuildRow } from './store.ts'
import { buildView } from './view.ts'
import type { ReadDeps } from '../../calls/deps.ts'
import type { WorkspaceDeps } from '../../workspaces/deps.ts'

/** Waits for a change of state or state_reason. */
export async function getBuild(call: Call<typeof templateBuildsGet>, deps: ReadDeps & Pick<WorkspaceDeps, 'waits'>): Promise<Reply> {
  const row = await findBuild(deps.reads, call.who, call.params.build_id)
  if (call.wait_seconds === 0 || isTerminal(row.state)) return { status: 200, body: buildView(row) }
  const has_changed = (later: OperationRow) => later.state !== row.state || later.state_reason !== row.state_reason
  const { waited } = await deps.waits.until(row.operation_id, has_changed, call.wait_seconds, call.signal)
  const headers: Record<string, string> = waited ? { 'preference-applied': `wait=${call.wait_seconds}` } : {}
  return { status: 200, body: buildView((await readBuild(deps.reads, row.id)) ?? row), headers }
}

export async function findBuild(reads: Reader, who: Principal, id: string): Promise<BuildRow> {
  const row = await readBuild(reads, id)
  if (row === null || !maySee(who, row)) throw notFound('build')
  return row
}
