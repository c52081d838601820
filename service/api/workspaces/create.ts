import type { Ignorable } from '../../../contract/schemas/workspaces.ts'
import { hasStartup } from '../../../contract/schemas/template-settings.ts'
import { admitStart, admitTree } from '../../core/money/admission/store.ts'
import { StaleReadError } from '../../core/changes/stale-read-error.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import { aboutWorkspace } from '../../core/workspaces/operations/store.ts'
import { ceilingsOf, isCut } from '../../core/workspaces/ceilings.ts'
import { insertFirstOperation, insertTreeWorkspace, assignWorkspaceKey, type NewWorkspace } from '../../core/workspaces/create-store.ts'
import { readerOf } from '../../db/reader.ts'
import { fail } from '../../lib/fail.ts'
import type { Owned } from '../calls/scope.ts'
import { takeOfDay } from '../calls/daily/take.ts'
import type { TemplateVersion } from './store.ts'
import type { CallDeps } from '../calls/deps.ts'
import type { WorkspaceDeps } from './deps.ts'

type Given =
  | 'key'
  | 'lifetime'
  | 'purpose'
  | 'origin'
  | 'caps'
  | 'inputs'
  | 'idle_policy'
  | 'background_seconds'
  | 'draft_state_id'
  | 'state_layers'

export interface Creation extends Pick<NewWorkspace, Given> {
  project: Owned
  version: TemplateVersion
  /** Id of the ended workspace that had the key before. */
  freed: string | null
  /** Cell that has the initial state; absent: any cell. */
  cell_id?: string
  now: Date
}

/** See the specification (App, "Open body"): caps above the ceiling are reduced to the ceiling. */
type Cut = { ignored: Ignorable[] }

/** @throws StaleReadError if a concurrent call has taken the key */
export async function createWorkspace(
  deps: Pick<CallDeps, 'ids'> & Pick<WorkspaceDeps, 'cells' | 'layered_opens'>,
  tx: ChangeTx,
  { project, version, freed, cell_id: at, ...given }: Creation,
): Promise<Cut & { workspace_id: string; operation_id: string }> {
  const id = deps.ids.next()
  // A concurrent open of the same key waits for this row and then finds this workspace.
  if (!(await assignWorkspaceKey(tx, project, given.key, id, freed))) throw new StaleReadError('the key is taken meanwhile')
  const plan = await admitStart(tx, project.organization_id, id)
  const cell_id = at ?? (await deps.cells.choose(readerOf(tx)))
  const operation_id = deps.ids.next()
  const { organization_id, project_id } = project
  const workspace: NewWorkspace = {
    ...given,
    id,
    organization_id,
    project_id,
    template_version_id: version.id,
    observed_state: 'creating',
    mode: 'processful',
    startup: hasStartup(version.settings) ? { state: 'pending' } : null,
    // See the specification (App, "Open rules" 9). Drafts and test instances always need layers.
    disk_layout: version.layered && (deps.layered_opens || given.purpose !== 'standard') ? 'layered' : 'legacy',
    ceilings: ceilingsOf({ template: version.settings, caps: given.caps, plan }),
    cell_id,
  }
  const operation = { ...aboutWorkspace(workspace), id: operation_id, kind: 'open', cell_id, input: {}, now: given.now } as const
  await insertFirstOperation(tx, workspace, operation)
  await takeOfDay(tx, 'workspaces', organization_id, given.now)
  return { workspace_id: id, operation_id, ignored: cut(workspace) }
}

/** A tree workspace needs neither machine nor operation. @throws as createWorkspace */
export async function createTreeWorkspace(
  deps: Pick<CallDeps, 'ids'> & Pick<WorkspaceDeps, 'cells'>,
  tx: ChangeTx,
  { project, version, freed, ...given }: Creation,
): Promise<Cut & { workspace_id: string }> {
  const id = deps.ids.next()
  if (!(await assignWorkspaceKey(tx, project, given.key, id, freed))) throw new StaleReadError('the key is taken meanwhile')
  const { organization_id, project_id } = project
  const plan = await admitTree(tx, organization_id)
  const cell_id = await deps.cells.choose(readerOf(tx))
  // The files need a cell from the first call on, and there is no operation that could wait for a cell.
  if (cell_id === null) throw fail('dependency_unavailable', null, 'No computer is there to keep its files', { retry_after_seconds: 5 })
  const workspace: NewWorkspace & { mode: 'file_first'; observed_state: 'running' } = {
    ...given,
    id,
    organization_id,
    project_id,
    template_version_id: version.id,
    observed_state: 'running',
    mode: 'file_first',
    startup: null,
    disk_layout: 'layered',
    ceilings: ceilingsOf({ template: version.settings, caps: given.caps, plan }),
    cell_id,
  }
  await insertTreeWorkspace(tx, workspace)
  await takeOfDay(tx, 'workspaces', organization_id, given.now)
  return { workspace_id: id, ignored: cut(workspace) }
}

function cut({ caps, ceilings }: NewWorkspace): Ignorable[] {
  return isCut(caps, ceilings) ? ['caps'] : []
}
