import { createHash } from 'node:crypto'
import { LIMITS } from '../../../contract/limits.ts'
import type { PlanStep } from '../../../contract/recipes/plan.ts'
import type { BuildPlan } from '../../core/templates/build-plan.ts'

/** Steps that make one layer together. */
export interface Stage {
  /** Where its first step stands in the plan. */
  first: number
  steps: PlanStep[]
  /** What its layer is cached under: all that it is made of, the layers below and the steps before included. */
  key: string
}

/** Raised when the same steps make other layers than they did, and when the same upload makes another base. */
const CACHE_VERSION = 1
const UNPACK_VERSION = 1

/**
 * A layer for each step, as long as there may be more layers; the rest makes one together. A step that is added or changed leaves those before
 * it as they are, and so do their layers.
 */
export function stagesOf({ steps, layers, base_upload, upload, egress, resources }: BuildPlan): Stage[] {
  const most = Math.max(1, LIMITS.build.layers_max - (base_upload === undefined ? layers.length : 1))
  const parts =
    steps.length <= most ? steps.map((step) => [step]) : [...steps.slice(0, most - 1).map((step) => [step]), steps.slice(most - 1)]
  let key = digestOf(['base', CACHE_VERSION, base_upload === undefined ? layers : uploadKey(base_upload), egress, resources])
  let first = 0
  return parts.map((own) => {
    key = digestOf([key, ...own.map((step) => [step, step.kind === 'copy' ? upload?.sha256 : null])])
    const stage = { first, steps: own, key }
    first += own.length
    return stage
  })
}

/** What the layer of a base that is an upload is cached under. */
export function uploadKey({ sha256 }: { sha256: string }): string {
  return digestOf(['upload', UNPACK_VERSION, sha256])
}

function digestOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex')
}
