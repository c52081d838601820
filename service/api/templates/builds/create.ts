import { normalPolicy } from '../../../../contract/egress/check.ts'
import { outside } from '../../../../contract/egress/intersect.ts'
import { uploadOf } from '../../../core/templates/recipes/check.ts'
import type { EgressPolicy } from '../../../../contract/egress/policy.ts'
import type { templateBuildsCreate, templateBuildsCreateOfOrganization } from '../../../../contract/routes/app/template-builds.ts'
import type { Recipe, TemplateBuildRequest } from '../../../../contract/schemas/recipes.ts'
import { TemplateSettings, templateSettingsProblems } from '../../../../contract/schemas/template-settings.ts'
import { admitBuild } from '../../../core/money/admission/store.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { BuildPlan, BuildUpload } from '../../../core/templates/build-plan.ts'
import { planBuild } from '../../../core/templates/recipe-plan.ts'
import { readerOf, type Reader } from '../../../db/reader.ts'
import { validatorOf } from '../../../http/checks.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { maySeeOrganization, notFound, type Owned } from '../../calls/scope.ts'
import { changeAndAnswer } from '../../calls/idempotency/change.ts'
import { readOperation } from '../../workspaces/operations/store.ts'
import { operationView } from '../../workspaces/operations/view.ts'
import { projectOf } from '../../access/projects/project-of.ts'
import { useUpload } from '../uploads/store.ts'
import { type AskedRecipe, askedRecipe } from './asked-recipe.ts'
import { findBase } from './base.ts'
import { beginBuild, refuseReservedSlug, templateToBuild } from './begin.ts'
import { buildBody, type BuildCommandResult } from './cancel.ts'
import { refuseCommands } from './permissions.ts'
import type { CallDeps, ChangeDeps, ReadDeps } from '../../calls/deps.ts'
import type { WorkspaceDeps } from '../../workspaces/deps.ts'
import type { TemplateDeps } from '../deps.ts'

type BuildCall = Call<typeof templateBuildsCreate> | Call<typeof templateBuildsCreateOfOrganization>

/** The platform template that unpacks an uploaded base and supplies its settings. */
const PLATFORM_BASE = 'base'
const isSettings = validatorOf(TemplateSettings)

/** The build stores its inputs, so later changes do not affect it. */
export async function createBuild(
  call: BuildCall,
  deps: ChangeDeps & ReadDeps & Pick<WorkspaceDeps, 'cells'> & Pick<TemplateDeps, 'uploads_dir' | 'package_mirror'>,
): Promise<Reply> {
  const { who, body } = call
  const { organization_id } = call.params as { organization_id?: string }
  if (organization_id !== undefined && !maySeeOrganization(who, organization_id)) throw notFound('organization')
  const project = await projectOf(deps.reads, who, body.project_id)
  if (organization_id !== undefined && organization_id !== project.organization_id) throw notFound('project')
  const asked = askedRecipe(body)
  if ((body.upload_id !== undefined || uploadOf(asked.recipe) !== null) && deps.uploads_dir === null)
    throw fail('dependency_unavailable', 'uploads_not_configured', 'This installation keeps no uploads')
  return changeAndAnswer(deps, call, (tx) => begin(deps, tx, call, project, asked), startedBody)
}

/** The first failing check decides the refusal: keep this order. */
async function begin(
  deps: Pick<CallDeps, 'ids'> & Pick<WorkspaceDeps, 'cells'> & Pick<TemplateDeps, 'package_mirror'>,
  tx: ChangeTx,
  call: BuildCall,
  project: Owned,
  asked: AskedRecipe,
): Promise<BuildCommandResult> {
  const { body, params, now } = call
  const { organization_id } = project
  await refuseReservedSlug(tx, params.slug)
  const plan = await planned(deps, tx, call, project, asked.recipe)
  refuseCommands(call.who, organization_id, plan.settings)
  const template_id = await templateToBuild(deps, tx, call, {
    organization_id,
    slug: params.slug,
    display_name: null,
    description: body.description ?? null,
    created_at: now,
  })
  const cell_id = await deps.cells.choose(readerOf(tx))
  const { warnings } = asked
  const spec = { ...plan, warnings, description: body.description ?? null, auto_publish: body.auto_publish ?? false }
  const about = { ...project, template_id, template_slug: params.slug, cell_id, now }
  return beginBuild(deps, tx, { ...about, kind: 'recipe', spec, capture_operation_id: null })
}

async function planned(
  deps: Pick<TemplateDeps, 'package_mirror'>,
  tx: ChangeTx,
  { body, now }: BuildCall,
  project: Owned,
  recipe: Recipe,
): Promise<BuildPlan> {
  const uploaded = uploadOf(recipe)
  const base = await findBase(readerOf(tx), project.organization_id, uploaded === null ? (recipe.base ?? '') : PLATFORM_BASE)
  const upload = body.upload_id === undefined ? null : await foundUpload(tx, body.upload_id, project, now, 'upload_id')
  const base_upload = uploaded === null ? null : await foundUpload(tx, uploaded, project, now, 'base')
  const ceiling = ceilingOf(body, base.egress)
  const { package_mirror: mirror } = deps
  const plan = planBuild({ recipe, base, upload, base_upload, plan: await admitBuild(tx, project.organization_id), mirror, ceiling })
  refuseSettings(plan.settings)
  return plan
}

async function foundUpload(tx: ChangeTx, id: string, project: Owned, now: Date, field: 'upload_id' | 'base'): Promise<BuildUpload> {
  const upload = await useUpload(tx, id, project, now)
  if (upload !== null) return upload
  throw fail('validation_failed', 'upload_missing', 'The project has no such upload, or not all of it is there', { details: { field } })
}

function ceilingOf({ egress_ceiling }: TemplateBuildRequest, of_base: EgressPolicy | null): EgressPolicy | null {
  if (egress_ceiling === undefined) return of_base
  const policy = normalPolicy(egress_ceiling)
  const wider = outside(policy, of_base)
  if (of_base === null || wider.length === 0) return policy
  throw fail('validation_failed', 'egress_widening', 'The ceiling lets out more than that of the base', {
    details: { template_egress: of_base, outside: wider.map((one) => ({ ...one, path: `egress_ceiling.${one.path}` })) },
  })
}

function refuseSettings(settings: TemplateSettings): void {
  const problem = isSettings(settings)
    ? templateSettingsProblems(settings)[0]
    : isSettings.errors.map(({ instancePath, message = '' }) => `${instancePath} ${message}`)[0]
  if (problem !== undefined) throw fail('validation_failed', 'invalid_settings', `With those of the base: ${problem}`)
}

async function startedBody(reads: Reader, begun: BuildCommandResult) {
  const operation = begun.operation_id === null ? null : await readOperation(reads, begun.operation_id)
  if (operation === null) throw new Error('an operation is gone that a change has just made')
  return { operation: operationView(operation), build: await buildBody(reads, begun) }
}
