import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { testInstancesCreate, testInstancesCreateOfOrganization } from '../../../contract/routes/app/test-instances.ts'
import type { Origin } from '../../../contract/schemas/workspaces.ts'
import { admitStart } from '../../core/money/admission/store.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import { beginOperation } from '../../core/workspaces/operations/begin.ts'
import { resolveInputs } from '../../core/workspaces/inputs.ts'
import { readerOf } from '../../db/reader.ts'
import type { Call, Principal, Reply } from '../../http/call.ts'
import { fail } from '../../lib/fail.ts'
import { maySee, notFound, requestedTools, type Owned } from '../calls/scope.ts'
import { change, type Changed } from '../calls/idempotency/change.ts'
import { projectOf } from '../access/projects/project-of.ts'
import { checkBinding, withSecretInputs } from '../workspaces/secrets/bindings.ts'
import { writeBinding } from '../workspaces/secrets/store.ts'
import { workspaceCommandResult, type WorkspaceCommandResult } from '../workspaces/answer-operation.ts'
import { answerStart } from '../workspaces/answer-start.ts'
import { createWorkspace, type Creation } from '../workspaces/create.ts'
import { retryStartup } from '../workspaces/open.ts'
import { type AskedOfFound, checkKey, ignoredBy } from '../workspaces/open-rules.ts'
import { allowed, joined } from '../workspaces/refusals.ts'
import { isReady, type WorkspaceRow } from '../workspaces/row.ts'
import { lockWorkspace, readKey, readTemplateVersion } from '../workspaces/store.ts'
import { findTemplate, findVersion, refuseArchived, refusePlatform } from './find.ts'
import type { VersionRow } from './store.ts'
import type { AnswerDeps, WorkspaceDeps } from '../workspaces/deps.ts'
import type { CallDeps } from '../calls/deps.ts'

export type TestCall = Call<typeof testInstancesCreate> | Call<typeof testInstancesCreateOfOrganization>

/** The version need not be published. */
export async function openTestInstance(
  call: TestCall,
  deps: AnswerDeps & Pick<WorkspaceDeps, 'cells' | 'layered_opens'> & Pick<CallDeps, 'turns' | 'change_rate'>,
): Promise<Reply> {
  const { body, who, params } = call
  if (body.key !== undefined) checkKey(body.key)
  const template = refusePlatform(await findTemplate(deps.reads, who, params))
  const version = await findVersion(deps.reads, template, params.version)
  const project = await projectOf(deps.reads, who, body.project_id)
  if (project.organization_id !== template.organization_id) throw notFound('project')
  requestedTools(who, project.organization_id, body.tools)
  refuseArchived(template)
  if (!version.layered) throw fail('conflict', 'template_not_layered', 'The version is a full copy: a test instance needs layers')
  const { template_id } = version
  const tried: TestSubject = {
    project,
    slug: template.slug,
    version,
    origin: { kind: 'template_version', template_id, version: version.version },
  }
  return answerTestInstance(call, deps, await change(deps, call, (tx) => openTestWorkspace(deps, tx, call, tried)))
}

export function answerTestInstance(call: TestCall, deps: AnswerDeps, outcome: Changed): Promise<Reply> {
  return answerStart(call, deps, outcome, undefined, (started) => started)
}

export interface TestSubject {
  project: Owned
  slug: string
  version: Pick<VersionRow, 'id' | 'layered' | 'settings'>
  origin: Origin
  state?: Pick<Creation, 'draft_state_id' | 'state_layers' | 'cell_id'>
}

/** Without an idempotency key of the caller the service makes one. */
export interface OwnCall {
  who: Principal
  now: Date
  body: { key?: string; caps?: Creation['caps']; inputs?: Record<string, unknown> }
}

export async function openTestWorkspace(
  deps: Pick<CallDeps, 'ids'> & Pick<WorkspaceDeps, 'cells' | 'layered_opens'>,
  tx: ChangeTx,
  call: OwnCall,
  tried: TestSubject,
): Promise<WorkspaceCommandResult> {
  const { body, who } = call
  const { project, slug, version, origin, state } = tried
  const key = body.key ?? ownKey('test', slug)
  const create = (freed: string | null) =>
    createOwn(deps, tx, call, { project, key, freed, version, lifetime: 'session', purpose: 'template_test', origin, ...state })
  const known = await readKey(readerOf(tx), project.organization_id, key)
  if (known === null) return create(null)
  const row = await lockWorkspace(tx, known.workspace_id)
  if (known.reusable || (row?.lifetime === 'session' && row.deleted_at !== null)) return create(known.workspace_id)
  const is_its = row !== null && maySee(who, row) && row.purpose === 'template_test' && isDeepStrictEqual(row.origin, origin)
  if (!is_its) throw fail('conflict', 'key_in_use', 'The key is in use, or was', { details: { key } })
  return reopen(deps, tx, call, row)
}

/** The prefix is reserved, so no caller can open this key. */
export function ownKey(kind: 'draft' | 'test', slug: string): string {
  return `sf:${kind}:${slug}:${randomBytes(4).toString('hex')}`
}

type Own = Pick<Creation, 'key' | 'freed' | 'lifetime' | 'purpose' | 'origin' | 'draft_state_id' | 'state_layers' | 'cell_id'>

export async function createOwn(
  deps: Pick<CallDeps, 'ids'> & Pick<WorkspaceDeps, 'cells' | 'layered_opens'>,
  tx: ChangeTx,
  { body, now }: OwnCall,
  { project, version, ...own }: Own & Pick<TestSubject, 'project' | 'version'>,
): Promise<WorkspaceCommandResult> {
  const { settings } = version
  const user = { ...project, workspace_id: null }
  const secrets = await withSecretInputs(tx, user, settings, [])
  await checkBinding(tx, user, settings, secrets)
  const { workspace_id, operation_id, ignored } = await createWorkspace(deps, tx, {
    ...own,
    project,
    version,
    caps: body.caps ?? {},
    inputs: resolveInputs(settings.inputs, body.inputs ?? {}),
    idle_policy: null,
    background_seconds: null,
    now,
  })
  if (secrets.length > 0) await writeBinding(tx, { ...project, id: workspace_id }, secrets)
  return { ...workspaceCommandResult({ ...project, id: workspace_id }, { status: 202, operation_id, changed: true }), ignored }
}

export async function reopen(
  deps: Pick<CallDeps, 'ids'>,
  tx: ChangeTx,
  call: OwnCall,
  row: WorkspaceRow,
  base?: AskedOfFound['base'],
): Promise<WorkspaceCommandResult> {
  const { caps, inputs } = call.body
  const declared = inputs === undefined ? {} : (await readTemplateVersion(readerOf(tx), row.template_version_id)).settings.inputs
  const asked = { caps, inputs: inputs === undefined ? undefined : resolveInputs(declared, inputs), base }
  return { ...(await startedAgain(deps, tx, call, row)), ignored: ignoredBy(row, asked) }
}

async function startedAgain(
  deps: Pick<CallDeps, 'ids'>,
  tx: ChangeTx,
  { now }: OwnCall,
  row: WorkspaceRow,
): Promise<WorkspaceCommandResult> {
  const decision = allowed(row, 'open')
  switch (decision.kind) {
    case 'proceed':
      if (row.startup?.state === 'failed') return workspaceCommandResult(row, await retryStartup(deps, tx, row, now))
      return workspaceCommandResult(row, { status: isReady(row) ? 200 : 202, operation_id: null, changed: false })
    case 'join':
      return workspaceCommandResult(row, { status: 202, operation_id: joined(row), changed: false })
    case 'operate': {
      await admitStart(tx, row.organization_id, row.id)
      const operation_id = await beginOperation(deps, tx, row, decision, { cell_id: row.cell_id, now })
      return workspaceCommandResult(row, { status: 202, operation_id, changed: true })
    }
  }
}
