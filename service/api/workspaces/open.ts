import type { workspacesOpen } from '../../../contract/routes/app/workspaces.ts'
import { admitStart } from '../../core/admission/store.ts'
import { readerOf, type Tx } from '../../db/reader.ts'
import { ceilingsOf } from '../../core/workspaces/ceilings.ts'
import { resolveInputs } from '../../core/workspaces/inputs.ts'
import type { Call, Reply } from '../../http/call.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { maySee, notFound, requestedTools, requireOperator, type Owned } from '../auth/scope.ts'
import type { ApiDeps } from '../deps.ts'
import { Again, change } from '../idempotency/change.ts'
import type { Outcome } from '../idempotency/store.ts'
import { projectOf } from '../projects/project-of.ts'
import { answerStart } from './answer-start.ts'
import { checkOpenBody, checkReopen, checkSecrets, newTerms } from './open-rules.ts'
import { beginOperation } from './operate.ts'
import { allowed, deletedLongAgo, joined } from './refusals.ts'
import { isReady, type WorkspaceRow } from './row.ts'
import { lockWorkspace, readByKey, readOpening, readTemplateVersion, type FoundTemplate } from './store.ts'
import { insertFirstOperation, takeWorkspaceKey, writeInputs, type NewWorkspace } from './write-store.ts'

type OpenCall = Call<typeof workspacesOpen>

/** POST /v1/workspaces/open: App, "Open rules". */
export async function openWorkspace(call: OpenCall, deps: ApiDeps): Promise<Reply> {
  const { body, who } = call
  checkOpenBody(body)
  const project = await projectOf(deps.reads, who, body.project_id)
  requireOperator(who, project.organization_id)
  requestedTools(who, project.organization_id, body.tools)
  const ready = await readyAlready(deps, call, project)
  if (ready) return answerOpen(call, deps, { status: 200, workspace_id: ready.id, operation_id: null }, ready)
  await failpoint('open.O1')
  const outcome = await change(deps, call, (tx) => openInTransaction(deps, tx, call, project))
  await failpoint('open.O2')
  return answerOpen(call, deps, outcome)
}

/** The workspace when it runs and nothing is to be written: the common reopen costs one read. */
async function readyAlready(deps: ApiDeps, call: OpenCall, project: Owned): Promise<WorkspaceRow | null> {
  const { body } = call
  if (call.idempotency !== null || body.inputs !== undefined) return null
  const row = await readByKey(deps.reads, project.organization_id, body.key)
  if (row === null || row.deleted_at !== null) return null
  checkExisting(row, call, project)
  checkSecrets(body.secrets)
  return allowed(row, 'open').kind === 'proceed' && isReady(row) ? row : null
}

async function openInTransaction(deps: ApiDeps, tx: Tx, call: OpenCall, project: Owned): Promise<Outcome> {
  const { body } = call
  const { key, template } = await readOpening(readerOf(tx), project.organization_id, body.key, body.template)
  const create = (freed: string | null) => createWorkspace(deps, tx, call, { project, template, freed })
  if (key === null) return create(null)
  if (!maySee(call.who, key)) throw notFound('workspace')
  const row = await lockWorkspace(tx, key.workspace_id)
  const is_freed = key.reusable || (row?.lifetime === 'session' && row.deleted_at !== null)
  if (is_freed) return create(key.workspace_id)
  if (row !== null) return reopen(deps, tx, call, row, project)
  // The tombstone is gone, the key stays used (DECISIONS, "Workspaces").
  throw key.project_id === project.project_id ? deletedLongAgo() : notFound('workspace')
}

function checkExisting(row: WorkspaceRow, call: OpenCall, project: Owned): void {
  // A key is unique in the organization; of another project it is not there.
  if (!maySee(call.who, row) || row.project_id !== project.project_id) throw notFound('workspace')
  checkReopen(row, call.body)
}

async function reopen(deps: ApiDeps, tx: Tx, call: OpenCall, row: WorkspaceRow, project: Owned): Promise<Outcome> {
  const { body, now } = call
  checkExisting(row, call, project)
  checkSecrets(body.secrets)
  const inputs = body.inputs === undefined ? null : await inputsOf(tx, row.template_version_id, body.inputs)
  const decision = allowed(row, 'open')
  if (inputs) await writeInputs(tx, row.id, inputs, now)
  switch (decision.kind) {
    case 'proceed':
      return { status: isReady(row) ? 200 : 202, workspace_id: row.id, operation_id: null }
    case 'join':
      return { status: 202, workspace_id: row.id, operation_id: joined(row) }
    case 'operate': {
      await admitStart(tx, row.organization_id, row.id)
      const cell_id = row.cell_id ?? (await deps.cells.choose(readerOf(tx)))
      return { status: 202, workspace_id: row.id, operation_id: await beginOperation(deps, tx, row, decision, { cell_id, now }) }
    }
  }
}

async function inputsOf(tx: Tx, template_version_id: string, given: Record<string, unknown>): Promise<Record<string, string>> {
  const version = await readTemplateVersion(readerOf(tx), template_version_id)
  return resolveInputs(version.settings.inputs, given)
}

interface FirstOpen {
  project: Owned
  template: FoundTemplate | null
  /** The ended workspace that had the key before. */
  freed: string | null
}

/** Workspace, key, operation and hold of a first open. */
async function createWorkspace(deps: ApiDeps, tx: Tx, call: OpenCall, { project, template, freed }: FirstOpen): Promise<Outcome> {
  const { body, now } = call
  const { version, lifetime } = newTerms(template, body)
  checkSecrets(body.secrets)
  const inputs = resolveInputs(version.settings.inputs, body.inputs ?? {})
  const id = deps.ids.next()
  // Whoever opens the same key waits here for this transaction, and finds its workspace when it is through.
  if (!(await takeWorkspaceKey(tx, project, body.key, id, freed))) throw new Again('the key is taken meanwhile')
  const plan = await admitStart(tx, project.organization_id, id)
  const cell_id = await deps.cells.choose(readerOf(tx))
  const caps = body.caps ?? {}
  const operation_id = deps.ids.next()
  const workspace = { id, ...project }
  const created: NewWorkspace = {
    ...workspace,
    key: body.key,
    template_version_id: version.id,
    observed_state: 'creating',
    lifetime,
    // App, open rule 9.
    disk_layout: version.layered && deps.layered_opens ? 'layered' : 'legacy',
    caps,
    ceilings: ceilingsOf({ template: version.settings, caps, plan }),
    inputs,
    cell_id,
    idle_policy: body.idle_policy ?? null,
    now,
  }
  await insertFirstOperation(tx, created, { id: operation_id, kind: 'open', workspace, cell_id, input: {}, now })
  return { status: 202, workspace_id: id, operation_id }
}

/** Also of a repeat with the same Idempotency-Key: made afresh from what is there, with a token of its own. */
export async function answerOpen(call: OpenCall, deps: ApiDeps, outcome: Outcome, known?: WorkspaceRow): Promise<Reply> {
  return answerStart(call, deps, outcome, known, ({ workspace, operation, cell_endpoint, tool_token }) => ({
    workspace,
    operation,
    cell_endpoint,
    tool_token,
  }))
}
