import type { EgressPolicy } from '../../../contract/egress/policy.ts'
import type { PlanStep } from './recipes/plan.ts'
import type { TemplateSettings } from '../../../contract/schemas/template-settings.ts'
import type { Resources } from '../../db/column-types.ts'

export interface BuildUpload {
  id: string
  sha256: string
  parts: { name: string; bytes: number }[]
}

/** Fixed at the request, and not resolved again when the build runs. */
export interface BuildPlan {
  /** Lowest layer first; empty if the base is an upload. */
  layers: string[]
  /** An upload as base. `layers` are those of the machine that unpacks it. */
  base_upload?: BuildUpload & { layers: string[] }
  resources: Resources
  egress: EgressPolicy
  steps: PlanStep[]
  /** The tar from which `copy` reads. Its digest is part of the cache key. */
  upload: BuildUpload | null
  settings: TemplateSettings
  ceiling: EgressPolicy | null
}
