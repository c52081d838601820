import type { workspacesAdopt } from '../../../../contract/routes/app/checkpoints.ts'
import { StaleReadError } from '../../../core/changes/stale-read-error.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { aboutWorkspace, insertOperation } from '../../../core/workspaces/operations/store.ts'
import { writeDesiredState } from '../../../core/workspaces/state-store.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { changeAndAnswer } from '../../calls/idempotency/change.ts'
import { operationBody, workspaceCommandResult } from '../answer-operation.ts'
import { visible } from '../find.ts'
import { allowedAsFork, operateOn } from '../refusals.ts'
import { familyOf, type WorkspaceRow } from '../row.ts'
import { lockWorkspace, readWorkspace } from '../store.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

type AdoptCall = Call<typeof workspacesAdopt>

export async function adoptFork(call: AdoptCall, deps: ChangeDeps): Promise<Reply> {
  const { body, now } = call
  await failpoint('adopt.A1')
  const work = async (tx: ChangeTx) => {
    const { row, fork } = await lockBoth(tx, call)
    const { operation: kind, desired_state } = operateOn(row, 'adopt')
    if (fork === null) throw fail('not_found', null, 'There is no such fork')
    if (familyOf(fork) !== familyOf(row) || fork.id === row.id) throw notRelated()
    allowedAsFork(fork)
    refuseBlank(fork)
    const delete_fork = body.delete_fork === true
    const input = { fork_workspace_id: fork.id, delete_fork }
    const id = deps.ids.next()
    const operation = { ...aboutWorkspace(row), id, kind, source_workspace_id: fork.id, cell_id: row.cell_id ?? fork.cell_id, input, now }
    await insertOperation(tx, operation, { workspace_ids: [row.id, fork.id], gate: 'closed' })
    await writeDesiredState(tx, row.id, desired_state, {}, now)
    const worked = workspaceCommandResult(row, { status: 202, operation_id: id, changed: true })
    return { ...worked, changed: worked.changed && { ...worked.changed, details: input } }
  }
  return changeAndAnswer(deps, call, work, operationBody)
}

/** Locks in id order, so two opposite adoptions cannot deadlock. A fork of another project is not locked, and is returned as null. */
async function lockBoth(tx: ChangeTx, { who, params, body }: AdoptCall): Promise<{ row: WorkspaceRow; fork: WorkspaceRow | null }> {
  const reads = readerOf(tx)
  const row = visible(who, await readWorkspace(reads, params.workspace_id))
  const other = await readWorkspace(reads, body.fork_workspace_id)
  const is_known = other !== null && other.organization_id === row.organization_id && other.project_id === row.project_id
  const ids = is_known ? [...new Set([row.id, other.id])].sort() : [row.id]
  const locked = new Map<string, WorkspaceRow>()
  for (const id of ids) {
    const found = await lockWorkspace(tx, id)
    if (found === null) throw new StaleReadError('a workspace is gone meanwhile')
    locked.set(id, found)
  }
  return { row: locked.get(row.id) ?? row, fork: locked.get(body.fork_workspace_id) ?? null }
}

function notRelated() {
  return fail('conflict', null, 'The two workspaces do not go back to one workspace by forks')
}

/** A fork that was reset while suspended has neither memory nor disk. */
function refuseBlank(fork: WorkspaceRow): void {
  if (fork.observed_state === 'suspended' && fork.checkpoint_id === null) {
    throw fail('conflict', 'not_snapshottable', 'The fork was reset while it was suspended: it has nothing to capture yet')
  }
}
