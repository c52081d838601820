import { randomBytes } from 'node:crypto'
import type { testInstancesCreate, testInstancesCreateOfOrganization } from '../../../contract/routes/app/test-instances.ts'
import { admitStart } from '../../core/admission/store.ts'
import type { ChangeTx } from '../../core/changes/mutate.ts'
import { beginOperation } from '../../core/operations/begin.ts'
import { resolveInputs } from '../../core/workspaces/inputs.ts'
import { readerOf } from '../../db/reader.ts'
import type { Call, Reply } from '../../http/call.ts'
import { fail } from '../../lib/fail.ts'
import { maySee, notFound, requestedTools, type Owned } from '../auth/scope.ts'
import type { ApiDeps } from '../deps.ts'
import { change, type Changed } from '../idempotency/change.ts'
import { projectOf } from '../projects/project-of.ts'
import { checkBinding, withSecretInputs } from '../secrets/bindings.ts'
import { writeBinding } from '../secrets/store.ts'
import { workedOn, type WorkedOn } from '../workspaces/answer-operation.ts'
import { answerStart } from '../workspaces/answer-start.ts'
import { createWorkspace } from '../workspaces/create.ts'
import { retryStartup } from '../workspaces/open.ts'
import { checkKey } from '../workspaces/open-rules.ts'
import { allowed, joined } from '../workspaces/refusals.ts'
import { isReady, type WorkspaceRow } from '../workspaces/row.ts'
import { lockWorkspace, readKey } from '../workspaces/store.ts'
import { findTemplate, findVersion, refusePlatform } from './find.ts'
import type { VersionRow } from './store.ts'

export type TestCall = Call<typeof testInstancesCreate> | Call<typeof testInstancesCreateOfOrganization>

/** POST …/versions/{version}/test-instances: a session workspace of a version, also of one that nobody has published. */
export async function openTestInstance(call: TestCall, deps: ApiDeps): Promise<Reply> {
  const { body, who, params } = call
  if (body.key !== undefined) checkKey(body.key)
  const template = refusePlatform(await findTemplate(deps.reads, who, params))
  const version = await findVersion(deps.reads, template, params.version)
  const project = await projectOf(deps.reads, who, body.project_id)
  if (project.organization_id !== template.organization_id) throw notFound('project')
  requestedTools(who, project.organization_id, body.tools)
  if (template.archived_at !== null) throw fail('conflict', 'template_archived', 'The template is archived')
  if (!version.layered) throw fail('conflict', 'template_not_layered', 'The version is a full copy: a test instance needs layers')
  return answerTestInstance(call, deps, await change(deps, call, (tx) => openIn(deps, tx, call, project, version)))
}

/** Also of a repeat with the same Idempotency-Key: made afresh, with a token of its own. */
export function answerTestInstance(call: TestCall, deps: ApiDeps, outcome: Changed): Promise<Reply> {
  return answerStart(call, deps, outcome, undefined, (started) => started)
}

async function openIn(deps: ApiDeps, tx: ChangeTx, call: TestCall, project: Owned, version: VersionRow): Promise<WorkedOn> {
  const { body, who } = call
  const key = body.key ?? `sf:test:${version.slug}:${randomBytes(4).toString('hex')}`
  const known = await readKey(readerOf(tx), project.organization_id, key)
  if (known === null) return create(deps, tx, call, project, version, { key, freed: null })
  const row = await lockWorkspace(tx, known.workspace_id)
  if (known.reusable || (row?.lifetime === 'session' && row.deleted_at !== null)) {
    return create(deps, tx, call, project, version, { key, freed: known.workspace_id })
  }
  const is_its = row !== null && maySee(who, row) && row.purpose === 'template_test' && row.template_version_id === version.id
  if (!is_its) throw fail('conflict', 'key_in_use', 'The key is in use, or was', { details: { key } })
  return reopen(deps, tx, call, row)
}

async function create(
  deps: ApiDeps,
  tx: ChangeTx,
  { body, now }: TestCall,
  project: Owned,
  { id, template_id, version, layered, settings }: VersionRow,
  named: { key: string; freed: string | null },
): Promise<WorkedOn> {
  const user = { ...project, workspace_id: null }
  const secrets = await withSecretInputs(tx, user, settings, [])
  await checkBinding(tx, user, settings, secrets)
  const { workspace_id, operation_id } = await createWorkspace(deps, tx, {
    ...named,
    project,
    version: { id, layered, settings },
    lifetime: 'session',
    purpose: 'template_test',
    origin: { kind: 'template_version', template_id, version },
    caps: body.caps ?? {},
    inputs: resolveInputs(settings.inputs, body.inputs ?? {}),
    idle_policy: null,
    background_seconds: null,
    now,
  })
  if (secrets.length > 0) await writeBinding(tx, { ...project, id: workspace_id }, secrets)
  return workedOn({ ...project, id: workspace_id }, { status: 202, operation_id, changed: true })
}

/** One that lives is found as an open finds a workspace. */
async function reopen(deps: ApiDeps, tx: ChangeTx, { now }: TestCall, row: WorkspaceRow): Promise<WorkedOn> {
  const decision = allowed(row, 'open')
  switch (decision.kind) {
    case 'proceed':
      if (row.startup?.state === 'failed') return workedOn(row, await retryStartup(deps, tx, row, now))
      return workedOn(row, { status: isReady(row) ? 200 : 202, operation_id: null, changed: false })
    case 'join':
      return workedOn(row, { status: 202, operation_id: joined(row), changed: false })
    case 'operate': {
      await admitStart(tx, row.organization_id, row.id)
      const operation_id = await beginOperation(deps, tx, row, decision, { cell_id: row.cell_id, now })
      return workedOn(row, { status: 202, operation_id, changed: true })
    }
  }
}
