import type { EgressPolicy } from '../../../contract/egress/policy.ts'
import type { PlanStep } from '../../../contract/recipes/plan.ts'
import type { TemplateSettings } from '../../../contract/schemas/template-settings.ts'
import type { Resources } from '../../db/schema.ts'

export interface BuildUpload {
  id: string
  sha256: string
  parts: { name: string; bytes: number }[]
}

/** The complete plan of a build from a recipe: written at the request, and not resolved again later. */
export interface BuildPlan {
  /** Layers of the base, lowest first; empty where the base is an upload. */
  layers: string[]
  /** The base where it is an upload, with the layers of the machine that unpacks it. */
  base_upload?: BuildUpload & { layers: string[] }
  /** Size of the build machine. */
  resources: Resources
  /** Egress policy of the build machine. */
  egress: EgressPolicy
  steps: PlanStep[]
  /** The tar from which `copy` reads. Its digest is part of the cache key. */
  upload: BuildUpload | null
  /** Settings of the resulting version. */
  settings: TemplateSettings
  /** Egress ceiling of the resulting version; null: none. */
  ceiling: EgressPolicy | null
}
