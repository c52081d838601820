import type { templateBuildsCancel } from '../../../../contract/routes/app/template-builds.ts'
import { isTerminal } from '../../../../contract/states/operation.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { cancelOperation, lockOperation } from '../../../core/workspaces/operations/store.ts'
import { readerOf, type Reader } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { changeAndAnswer, type CommandResult } from '../../calls/idempotency/change.ts'
import { findBuild } from './get.ts'
import { readBuild, type BuildRow } from './store.ts'
import { buildView } from './view.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

export interface BuildCommandResult extends CommandResult {
  build_id: string
}

/** Cancels the operation, after which the build's worker can commit nothing. */
export function cancelBuild(call: Call<typeof templateBuildsCancel>, deps: ChangeDeps): Promise<Reply> {
  const work = async (tx: ChangeTx) => {
    const { operation_id } = await findBuild(readerOf(tx), call.who, call.params.build_id)
    await lockOperation(tx, operation_id)
    const row = await findBuild(readerOf(tx), call.who, call.params.build_id)
    if (isTerminal(row.state)) throw fail('conflict', 'build_finished', 'The build is over')
    await cancelOperation(tx, operation_id, call.now, 'The build was canceled')
    return workedOnBuild(row, 200)
  }
  return changeAndAnswer(deps, call, work, buildBody)
}

export function workedOnBuild(
  { id, organization_id, project_id, operation_id }: Pick<BuildRow, 'id' | 'organization_id' | 'project_id' | 'operation_id'>,
  status: number,
): BuildCommandResult {
  const scope = { organization_id, project_id }
  return { build_id: id, status, scope, workspace_id: null, operation_id, changed: { kind: 'template_build', id } }
}

export async function buildBody(reads: Reader, { build_id }: BuildCommandResult) {
  const row = await readBuild(reads, build_id)
  if (row === null) throw new Error('a build is gone that a change has just named')
  return buildView(row)
}
