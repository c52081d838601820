import { createHash } from 'node:crypto'
import { LIMITS } from '../../../../contract/limits.ts'
import type { PlanStep } from '../../../core/templates/recipes/plan.ts'
import type { BuildPlan } from '../../../core/templates/build-plan.ts'

export interface Stage {
  first: number
  steps: PlanStep[]
  /** The cache key. It covers the layers below and the steps before. */
  key: string
}

/** Must be raised when the same steps make other layers, or the same upload makes another base. */
const CACHE_VERSION = 1
const UNPACK_VERSION = 1

/** Each step makes a layer; at the maximum of layers, the last steps share one. A changed or added step reuses the layers before it. */
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

export function uploadKey({ sha256 }: { sha256: string }): string {
  return digestOf(['upload', UNPACK_VERSION, sha256])
}

function digestOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex')
}
