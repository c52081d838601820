import type { MachineVolume } from '../../../db/column-types.ts'
import type { RefusedVolume } from '../hostd.ts'

export function given(here: ReadonlySet<string>, volumes: readonly MachineVolume[] = []): MachineVolume[] {
  return volumes.filter(({ volume_id }) => here.has(volume_id))
}

export function leftOut(here: ReadonlySet<string>, volumes: readonly MachineVolume[] = []): { refused_volumes?: RefusedVolume[] } {
  const missing = volumes.filter(({ volume_id }) => !here.has(volume_id))
  return missing.length === 0 ? {} : { refused_volumes: missing.map(({ place }) => ({ place, why: 'not_here' })) }
}
