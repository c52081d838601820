import type { workspacesForkTree } from '../../../contract/routes/app/lifecycle.ts'
import { admitTree } from '../../core/money/admission/store.ts'
import { StaleReadError } from '../../core/changes/stale-read-error.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import { boundNames, lockNamedSecrets } from '../../core/secrets/store.ts'
import { forkCeilings } from '../../core/workspaces/ceilings.ts'
import { insertTreeFork, assignWorkspaceKey } from '../../core/workspaces/create-store.ts'
import { readerOf } from '../../db/reader.ts'
import type { Call, Reply } from '../../http/call.ts'
import { fail } from '../../lib/fail.ts'
import { takeOfDay } from '../calls/daily/take.ts'
import { changeAndAnswer } from '../calls/idempotency/change.ts'
import { copyBinding } from './secrets/store.ts'
import { workspaceCommandResult, workspaceBody, type WorkspaceCommandResult } from './answer-operation.ts'
import { lockForChange } from './find.ts'
import { copyOverride, freedKey } from './fork.ts'
import { checkKey } from './open-rules.ts'
import { allowed } from './refusals.ts'
import { ceilings, type WorkspaceRow } from './row.ts'
import { readTemplateVersion } from './store.ts'
import type { CallDeps, ChangeDeps } from '../calls/deps.ts'

type ForkTreeCall = Call<typeof workspacesForkTree>

/** See decision 162. */
export async function forkTree(call: ForkTreeCall, deps: ChangeDeps): Promise<Reply> {
  checkKey(call.body.key)
  const work = async (tx: ChangeTx) => {
    // The lock keeps a delete of the source from removing the files.
    const source = await lockForChange(tx, call)
    allowed(source, 'fork_tree')
    return forkFrom(deps, tx, call, source)
  }
  return changeAndAnswer(deps, call, work, async (reads, worked) => ({ workspace: await workspaceBody(reads, worked) }))
}

async function forkFrom(
  deps: Pick<CallDeps, 'ids'>,
  tx: ChangeTx,
  call: ForkTreeCall,
  source: WorkspaceRow,
): Promise<WorkspaceCommandResult> {
  const { body, now } = call
  const id = deps.ids.next()
  const freed = await freedKey(tx, source.organization_id, body.key)
  if (!(await assignWorkspaceKey(tx, source, body.key, id, freed))) throw new StaleReadError('the key is taken meanwhile')
  const plan = await admitTree(tx, source.organization_id)
  const version = await readTemplateVersion(readerOf(tx), source.template_version_id)
  const names = await boundNames(readerOf(tx), source.id)
  if (names.length > 0) await lockNamedSecrets(tx, source, names)
  const workspace = { id, organization_id: source.organization_id, project_id: source.project_id }
  const found = await insertTreeFork(
    tx,
    {
      ...workspace,
      key: body.key,
      template_version_id: source.template_version_id,
      observed_state: 'running',
      lifetime: 'persistent',
      mode: 'file_first',
      purpose: 'standard',
      origin: null,
      disk_layout: source.disk_layout,
      caps: source.caps,
      ceilings: forkCeilings(ceilings(source), {}, version.settings.ceiling, plan),
      inputs: source.inputs,
      startup: null,
      cell_id: source.cell_id, // the cell that has the source's files
      idle_policy: null,
      background_seconds: null,
      now,
    },
    { workspace_id: source.id, tree_revision: body.tree_revision ?? null },
  )
  if (!found) {
    const details = body.tree_revision === undefined ? {} : { tree_revision: body.tree_revision }
    throw fail('not_found', null, 'The revision is not kept, or was never there', { details })
  }
  if (names.length > 0) await copyBinding(tx, source.id, workspace)
  await copyOverride(deps, tx, call, source.id, workspace)
  await takeOfDay(tx, 'workspaces', workspace.organization_id, now)
  return workspaceCommandResult(workspace, { status: 201, operation_id: null, changed: true })
}
