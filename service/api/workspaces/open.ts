import type { workspacesOpen } from '../../../contract/routes/app/workspaces.ts'
import type { TemplateSettings } from '../../../contract/schemas/template-settings.ts'
import { admitStart, admitTree } from '../../core/money/admission/store.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import { beginOperation } from '../../core/workspaces/operations/begin.ts'
import { aboutWorkspace, insertOperation } from '../../core/workspaces/operations/store.ts'
import { readerOf } from '../../db/reader.ts'
import { resolveInputs } from '../../core/workspaces/inputs.ts'
import type { Call, Reply } from '../../http/call.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { maySee, notFound, requestedTools, type Owned } from '../calls/scope.ts'
import { change, type Changed } from '../calls/idempotency/change.ts'
import { projectOf } from '../access/projects/project-of.ts'
import { checkBinding, replaceBinding, withSecretInputs } from './secrets/bindings.ts'
import { writeBinding } from './secrets/store.ts'
import { workspaceCommandResult, type WorkspaceCommandResult } from './answer-operation.ts'
import { answerStart } from './answer-start.ts'
import { createTreeWorkspace, createWorkspace, type Creation } from './create.ts'
import { checkOpenBody, checkReopen, ignoredBy, newTerms, templateNamed } from './open-rules.ts'
import { allowed, deleted, inProgress, joined } from './refusals.ts'
import { isReady, type WorkspaceRow } from './row.ts'
import { lockWorkspace, readByKey, readOpening, readTemplateVersion, type FoundTemplate } from './store.ts'
import { writeInputs } from './write-store.ts'
import type { AnswerDeps, WorkspaceDeps } from './deps.ts'
import type { CallDeps, ReadDeps } from '../calls/deps.ts'

type OpenCall = Call<typeof workspacesOpen>

/** See the specification (App, "Open rules"). */
export async function openWorkspace(
  call: OpenCall,
  deps: AnswerDeps & Pick<WorkspaceDeps, 'cells' | 'layered_opens' | 'file_first'> & Pick<CallDeps, 'turns' | 'change_rate'>,
): Promise<Reply> {
  const { body, who } = call
  checkOpenBody(body)
  const project = await projectOf(deps.reads, who, body.project_id)
  requestedTools(who, project.organization_id, body.tools)
  const ready = await readyAlready(deps, call, project)
  if (ready)
    return answerOpen(
      call,
      deps,
      { ...reopened(ready, body, { status: 200, operation_id: null, changed: false }), recorded: false, replayed: false },
      ready,
    )
  await failpoint('open.O1')
  const outcome = await change(deps, call, (tx) => openInTransaction(deps, tx, call, project))
  await failpoint('open.O2')
  return answerOpen(call, deps, outcome)
}

/** The common reopen of a ready workspace needs only one read. */
async function readyAlready(deps: ReadDeps, call: OpenCall, project: Owned): Promise<WorkspaceRow | null> {
  const { body } = call
  if (call.idempotency !== null || body.inputs !== undefined || body.secrets !== undefined) return null
  const row = await readByKey(deps.reads, project.organization_id, body.key)
  if (row === null || row.deleted_at !== null) return null
  checkExisting(row, call, project)
  if (row.mode === 'file_first') return null // every open of a file-first workspace must be admitted
  return allowed(row, 'open').kind === 'proceed' && isReady(row) ? row : null
}

async function openInTransaction(
  deps: Pick<CallDeps, 'ids'> & Pick<WorkspaceDeps, 'cells' | 'layered_opens' | 'file_first'>,
  tx: ChangeTx,
  call: OpenCall,
  project: Owned,
): Promise<WorkspaceCommandResult> {
  const { body } = call
  const { key, template } = await readOpening(readerOf(tx), project.organization_id, body.key, templateNamed(body.template))
  const create = (freed: string | null) => createFor(deps, tx, call, { project, freed }, template)
  if (key === null) return create(null)
  if (!maySee(call.who, key)) throw notFound('workspace')
  const row = await lockWorkspace(tx, key.workspace_id)
  const is_freed = key.reusable || (row?.lifetime === 'session' && row.deleted_at !== null)
  if (is_freed) return create(key.workspace_id)
  if (row !== null) return reopen(deps, tx, call, row, project)
  // The deleted workspace's row is gone, but its key remains used.
  throw key.project_id === project.project_id ? deleted() : notFound('workspace')
}

function checkExisting(row: WorkspaceRow, call: OpenCall, project: Owned): void {
  // Keys are unique in the organization, but other projects must not learn that a key exists.
  if (!maySee(call.who, row) || row.project_id !== project.project_id) throw notFound('workspace')
  checkReopen(row, call.body)
}

async function reopen(
  deps: Pick<CallDeps, 'ids'> & Pick<WorkspaceDeps, 'cells'>,
  tx: ChangeTx,
  call: OpenCall,
  row: WorkspaceRow,
  project: Owned,
): Promise<WorkspaceCommandResult> {
  const { body, now } = call
  checkExisting(row, call, project)
  const given = body.inputs !== undefined || body.secrets !== undefined
  const settings = given ? (await readTemplateVersion(readerOf(tx), row.template_version_id)).settings : null
  const bound = settings !== null && body.secrets !== undefined && (await bindAnew(tx, row, settings, body.secrets))
  const inputs = settings === null || body.inputs === undefined ? null : resolveInputs(settings.inputs, body.inputs)
  const decision = allowed(row, 'open')
  if (row.mode === 'file_first') await admitTree(tx, row.organization_id) // the start is admitted (Cell, "File-first rules" 8)
  if (inputs) await writeInputs(tx, row.id, inputs, now)
  const changed = inputs !== null || bound
  switch (decision.kind) {
    case 'proceed':
      if (row.startup?.state === 'failed') return reopened(row, body, await retryStartup(deps, tx, row, now))
      return reopened(row, body, { status: isReady(row) ? 200 : 202, operation_id: null, changed })
    case 'join':
      return reopened(row, body, { status: 202, operation_id: joined(row), changed })
    case 'operate': {
      await admitStart(tx, row.organization_id, row.id)
      const cell_id = row.cell_id ?? (await deps.cells.choose(readerOf(tx)))
      const operation_id = await beginOperation(deps, tx, row, decision, { cell_id, now })
      return reopened(row, body, { status: 202, operation_id, changed: true })
    }
  }
}

/** See the specification (App, "Open rules" 3). A workspace with a failed start-up is not ready, but serves tools during the retry. */
export async function retryStartup(deps: Pick<CallDeps, 'ids'>, tx: ChangeTx, row: WorkspaceRow, now: Date) {
  if (row.op_id !== null) throw inProgress(row)
  const id = deps.ids.next()
  const { cell_id } = row
  const input = { startup_retry: true }
  await insertOperation(tx, { ...aboutWorkspace(row), id, kind: 'open', cell_id, input, now }, { workspace_ids: [row.id], gate: 'open' })
  return { status: 202, operation_id: id, changed: true }
}

/** Lists the ignored fields (App, "Open rules" 1). */
function reopened(row: WorkspaceRow, body: OpenCall['body'], came: Parameters<typeof workspaceCommandResult>[1]): WorkspaceCommandResult {
  const { template, caps, idle_policy, background_seconds } = body // inputs and secrets are never ignored
  return { ...workspaceCommandResult(row, came), ignored: ignoredBy(row, { template, caps, idle_policy, background_seconds }) }
}

async function bindAnew(tx: ChangeTx, row: WorkspaceRow, settings: TemplateSettings, given: readonly string[]): Promise<boolean> {
  return replaceBinding(tx, row, settings, await withSecretInputs(tx, { ...row, workspace_id: row.id }, settings, given))
}

async function createFor(
  deps: Pick<CallDeps, 'ids'> & Pick<WorkspaceDeps, 'cells' | 'layered_opens' | 'file_first'>,
  tx: ChangeTx,
  { body, now }: OpenCall,
  of: Pick<Creation, 'project' | 'freed'>,
  template: FoundTemplate | null,
) {
  const { version, lifetime } = newTerms(template, body, deps)
  const secrets = await withSecretInputs(tx, { ...of.project, workspace_id: null }, version.settings, body.secrets ?? [])
  await checkBinding(tx, { ...of.project, workspace_id: null }, version.settings, secrets)
  const creation: Creation = {
    ...of,
    version,
    lifetime,
    key: body.key,
    purpose: 'standard',
    origin: null,
    caps: body.caps ?? {},
    inputs: resolveInputs(version.settings.inputs, body.inputs ?? {}),
    idle_policy: body.idle_policy ?? null,
    background_seconds: body.background_seconds ?? null,
    now,
  }
  const bind = async (id: string) => {
    if (secrets.length > 0) await writeBinding(tx, { ...of.project, id }, secrets)
  }
  if (body.mode === 'file_first') {
    const { workspace_id: id, ignored } = await createTreeWorkspace(deps, tx, creation)
    await bind(id)
    return { ...workspaceCommandResult({ ...of.project, id }, { status: 200, operation_id: null, changed: true }), ignored }
  }
  const { workspace_id, operation_id, ignored } = await createWorkspace(deps, tx, creation)
  await bind(workspace_id)
  return { ...workspaceCommandResult({ ...of.project, id: workspace_id }, { status: 202, operation_id, changed: true }), ignored }
}

/** A repeat, too, is answered from the current state, with a new token. */
export async function answerOpen(call: OpenCall, deps: AnswerDeps, outcome: Changed, known?: WorkspaceRow): Promise<Reply> {
  return answerStart(call, deps, outcome, known, (started) => started)
}
