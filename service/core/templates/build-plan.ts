import type { EgressPolicy } from '../../../contract/egress/policy.ts'
import type { PlanStep } from '../../../contract/recipes/plan.ts'
import type { TemplateSettings } from '../../../contract/schemas/template-settings.ts'
import type { Resources } from '../../db/schema.ts'

export interface BuildUpload {
  id: string
  sha256: string
  parts: { name: string; bytes: number }[]
}

/** What a build from a recipe does and makes: written when it is asked for, and never looked up again. */
export interface BuildPlan {
  /** Of the base, the lowest first. None where it is an upload. */
  layers: string[]
  /** The base that is an upload, and the layers of the machine that unpacks it. */
  base_upload?: BuildUpload & { layers: string[] }
  /** Of the machine that the steps run in. */
  resources: Resources
  /** What that machine may reach. */
  egress: EgressPolicy
  steps: PlanStep[]
  /** The tar that `copy` takes from; the digest is a part of what is cached by. */
  upload: BuildUpload | null
  /** Of the version. */
  settings: TemplateSettings
  /** Its ceiling. */
  ceiling: EgressPolicy | null
}
