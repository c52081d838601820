import { parseBase } from '../../../core/templates/recipes/check.ts'
import type { draftsCreate, draftsCreateOfOrganization } from '../../../../contract/routes/app/template-drafts.ts'
import { decide } from '../../../../contract/states/commands.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { maySee, maySeeOrganization, notFound, requestedTools, type Owned } from '../../calls/scope.ts'
import { change, type Changed } from '../../calls/idempotency/change.ts'
import { projectOf } from '../../access/projects/project-of.ts'
import { refuseReservedSlug, templateToChange } from '../builds/begin.ts'
import { findTemplates, readVersion, type TemplateRow, type VersionRow } from '../store.ts'
import { createOwn, ownKey, reopen } from '../test-instance.ts'
import type { WorkspaceCommandResult } from '../../workspaces/answer-operation.ts'
import { answerStart } from '../../workspaces/answer-start.ts'
import { seen, type WorkspaceRow } from '../../workspaces/row.ts'
import { lockWorkspace } from '../../workspaces/store.ts'
import { insertDraft, readDraftOf, readLiveDraft, type DraftRow } from './store.ts'
import { draftView } from './view.ts'
import type { AnswerDeps, WorkspaceDeps } from '../../workspaces/deps.ts'
import type { CallDeps } from '../../calls/deps.ts'

type CreateCall = Call<typeof draftsCreate> | Call<typeof draftsCreateOfOrganization>

export async function createDraft(
  call: CreateCall,
  deps: AnswerDeps & Pick<WorkspaceDeps, 'cells' | 'layered_opens'> & Pick<CallDeps, 'turns' | 'change_rate'>,
): Promise<Reply> {
  const { who, body } = call
  const { organization_id } = call.params as { organization_id?: string }
  if (organization_id !== undefined && !maySeeOrganization(who, organization_id)) throw notFound('organization')
  const project = await projectOf(deps.reads, who, body.project_id)
  if (organization_id !== undefined && organization_id !== project.organization_id) throw notFound('project')
  requestedTools(who, project.organization_id, body.tools)
  await failpoint('open.O1')
  return answerDraft(call, deps, await change(deps, call, (tx) => createIn(deps, tx, call, project)))
}

export async function answerDraft(call: CreateCall, deps: AnswerDeps, outcome: Changed): Promise<Reply> {
  const draft = outcome.workspace_id === null ? null : await readDraftOf(deps.reads, outcome.workspace_id)
  if (draft === null) throw new Error('a draft is gone that a change has just named')
  return answerStart(call, deps, outcome, undefined, (started) => started, { draft: draftView(draft) })
}

/** The first failing check decides the refusal: keep this order. The template's lock serializes creations. */
async function createIn(
  deps: Pick<CallDeps, 'ids'> & Pick<WorkspaceDeps, 'cells' | 'layered_opens'>,
  tx: ChangeTx,
  call: CreateCall,
  project: Owned,
): Promise<WorkspaceCommandResult> {
  const { body, params, now } = call
  const { slug } = params
  await refuseReservedSlug(tx, slug)
  const { organization_id } = project
  const [known] = await findTemplates(readerOf(tx), [organization_id], slug)
  const found = known === undefined ? null : await readLiveDraft(readerOf(tx), known.id)
  if (found !== null) return startAgain(deps, tx, call, found)
  const named = { organization_id, slug, display_name: body.display_name ?? null, description: null, created_at: now }
  const { id: template_id } = await templateToChange(deps, tx, call.who, named)
  const live = await readLiveDraft(readerOf(tx), template_id)
  if (live !== null) throw exists(live)
  const template = await templateOf(tx, project, slug)
  const version = await baseOf(tx, project, template, body.base)
  const own = { key: ownKey('draft', slug), freed: null, lifetime: 'persistent', purpose: 'template_draft', origin: null } as const
  const worked = await createOwn(deps, tx, call, { project, version, ...own })
  const base_version = version.template_id === template_id ? version.version : template.latest_version
  await insertDraft(tx, { id: deps.ids.next(), ...project, template_id, workspace_id: worked.workspace_id, base_version, created_at: now })
  return worked
}

/** Starts the draft's stopped workspace. The open route cannot, because the draft's key is reserved. */
async function startAgain(deps: Pick<CallDeps, 'ids'>, tx: ChangeTx, call: CreateCall, live: DraftRow): Promise<WorkspaceCommandResult> {
  const row = maySee(call.who, live) ? await lockWorkspace(tx, live.workspace_id) : null
  if (row === null || !isToStart(row)) throw exists(live)
  return reopen(deps, tx, call, row, parseBase(call.body.base ?? '') ?? undefined)
}

function isToStart(row: WorkspaceRow): boolean {
  const decision = decide(seen(row), 'open')
  if (decision.kind === 'operate') return decision.operation === 'open'
  return decision.kind === 'proceed' && row.op_id === null && row.startup?.state === 'failed'
}

function exists({ template_slug, workspace_id }: DraftRow) {
  return fail('conflict', 'draft_exists', `${template_slug} has a draft already`, { details: { workspace_id } })
}

async function templateOf(tx: ChangeTx, { organization_id }: Owned, slug: string): Promise<TemplateRow> {
  const [template] = await findTemplates(readerOf(tx), [organization_id], slug)
  if (template === undefined) throw new Error('a template is gone that the transaction has locked')
  return template
}

/** A base of the own organization need not be published. */
async function baseOf(tx: ChangeTx, { organization_id }: Owned, template: TemplateRow, named: string | undefined): Promise<VersionRow> {
  if (named === undefined && template.latest_version === null) {
    const message = `${template.slug} has no published version: say what the draft is based on`
    throw fail('validation_failed', 'base_required', message, { details: { field: 'base' } })
  }
  const { slug, version } = parseBase(named ?? '') ?? { slug: template.slug, version: template.latest_version }
  const [of] = slug === template.slug ? [template] : await findTemplates(readerOf(tx), [organization_id], slug)
  const row = of === undefined ? null : await readVersion(readerOf(tx), of.id, version ?? 0)
  if (of === undefined || row === null || (of.organization_id === null && row.published_at === null))
    throw fail('not_found', 'version_not_found', `There is no version ${slug}@${version}`)
  if (of.archived_at !== null) throw fail('conflict', 'template_archived', `The template ${slug} is archived`)
  if (row.archived_at !== null) throw fail('conflict', 'version_archived', `Version ${version} of ${slug} is archived`)
  if (!row.layered) throw fail('conflict', 'template_not_layered', `Version ${version} of ${slug} is a full copy: it has no layers`)
  return row
}
