import type { Resources } from '../../db/column-types.ts'

export const RESOURCES = ['cpu_millis', 'memory_mib', 'disk_gib'] as const satisfies readonly (keyof Resources)[]

export interface CeilingSources {
  template: { ceiling: Resources; defaults: Resources }
  caps: Partial<Resources>
  plan: { [resource in keyof Resources]: number | null }
}

/**
 * Upper limits of a workspace (App, "Open body"). An absent cap means the template's default size; an absent plan limit restricts nothing.
 */
export function ceilingsOf({ template, caps, plan }: CeilingSources): Resources {
  const of = (resource: keyof Resources) =>
    Math.min(template.ceiling[resource], caps[resource] ?? template.defaults[resource], plan[resource] ?? Number.POSITIVE_INFINITY)
  return { cpu_millis: of('cpu_millis'), memory_mib: of('memory_mib'), disk_gib: of('disk_gib') }
}

export function isCut(caps: Partial<Resources>, ceilings: Resources): boolean {
  return RESOURCES.some((resource) => (caps[resource] ?? 0) > ceilings[resource])
}

export function forkCeilings(
  source: Resources,
  caps: Partial<Resources>,
  template_ceiling: Resources,
  plan: CeilingSources['plan'],
): Resources {
  return ceilingsOf({ template: { ceiling: template_ceiling, defaults: source }, caps, plan })
}
