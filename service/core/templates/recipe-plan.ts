import { intersection } from '../../../contract/egress/intersect.ts'
import type { EgressPolicy } from '../../../contract/egress/policy.ts'
import { planEgress, planSteps } from './recipes/plan.ts'
import type { Recipe } from '../../../contract/schemas/recipes.ts'
import type { TemplateSettings } from '../../../contract/schemas/template-settings.ts'
import { ceilingsOf, type CeilingSources } from '../workspaces/ceilings.ts'
import type { BuildPlan, BuildUpload } from './build-plan.ts'

export interface Base {
  layers: string[]
  settings: TemplateSettings
  egress: EgressPolicy | null
}

export interface PlanSources {
  recipe: Recipe
  base: Base
  upload: BuildPlan['upload']
  /** An upload as base, which is unpacked into a layer. */
  base_upload: BuildUpload | null
  plan: CeilingSources['plan']
  /** Mirror of Debian packages; null: Debian's own servers. */
  mirror: string | null
  ceiling: EgressPolicy | null
}

/** Plans a build. Its machine is as large as a workspace of the version, and its egress stays within the base's policy. */
export function planBuild({ recipe, upload, base_upload, plan, mirror, ceiling, ...sources }: PlanSources): BuildPlan {
  const base = base_upload === null ? sources.base : underUpload(sources.base)
  const settings = recipeSettings(base.settings, recipe)
  return {
    layers: base.layers,
    ...(base_upload === null ? {} : { base_upload: { ...base_upload, layers: sources.base.layers } }),
    resources: ceilingsOf({ template: settings, caps: {}, plan }),
    egress: intersection(planEgress(recipe.egress, mirror), base.egress),
    steps: planSteps(recipe, base.settings.env, mirror),
    upload,
    settings,
    ceiling,
  }
}

/** An upload has no layers. Sizes and egress are those of the platform's base. */
function underUpload({ settings: { defaults, ceiling }, egress }: Base): Base {
  const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
  return { layers: [], settings: { env: { PATH }, inputs: {}, defaults, ceiling }, egress }
}

export function recipeSettings(base: TemplateSettings, recipe: Recipe): TemplateSettings {
  const { env, inputs, start, services, warm, defaults, ceiling } = recipe
  const { warm: _, ...kept } = base // the base's `warm` may not fit other files
  return {
    ...kept,
    env: { ...base.env, ...env },
    defaults: { ...base.defaults, ...defaults },
    ceiling: { ...base.ceiling, ...ceiling },
    ...(inputs === undefined ? {} : { inputs }),
    ...(start === undefined ? {} : { start }),
    ...(services === undefined ? {} : { services }),
    ...(warm === undefined ? {} : { warm }),
  }
}
