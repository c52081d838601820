import { intersection } from '../../../contract/egress/intersect.ts'
import type { EgressPolicy } from '../../../contract/egress/policy.ts'
import { planEgress, planSteps } from '../../../contract/recipes/plan.ts'
import type { Recipe } from '../../../contract/schemas/recipes.ts'
import type { TemplateSettings } from '../../../contract/schemas/template-settings.ts'
import { ceilingsOf, type CeilingSources } from '../workspaces/ceilings.ts'
import type { BuildPlan } from './build-plan.ts'

export interface Base {
  layers: string[]
  settings: TemplateSettings
  egress: EgressPolicy | null
}

export interface PlanSources {
  recipe: Recipe
  base: Base
  upload: BuildPlan['upload']
  plan: CeilingSources['plan']
  /** Of the version. */
  ceiling: EgressPolicy | null
}

/** What a build from a recipe does. Its machine is as large as a workspace of the version, and reaches nothing that the base forbids. */
export function planBuild({ recipe, base, upload, plan, ceiling }: PlanSources): BuildPlan {
  const settings = recipeSettings(base.settings, recipe)
  return {
    layers: base.layers,
    resources: ceilingsOf({ template: settings, caps: {}, plan }),
    egress: intersection(planEgress(recipe.egress), base.egress),
    steps: planSteps(recipe, base.settings.env),
    upload,
    settings,
    ceiling,
  }
}

/** What a recipe does not say is its base's. */
export function recipeSettings(base: TemplateSettings, recipe: Recipe): TemplateSettings {
  const { env, inputs, start, services, defaults, ceiling } = recipe
  return {
    ...base,
    env: { ...base.env, ...env },
    defaults: { ...base.defaults, ...defaults },
    ceiling: { ...base.ceiling, ...ceiling },
    ...(inputs === undefined ? {} : { inputs }),
    ...(start === undefined ? {} : { start }),
    ...(services === undefined ? {} : { services }),
  }
}
