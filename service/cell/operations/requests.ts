import type { CommandHeader } from '../../../contract/internal/host-subject.ts'
import type { RestoreRequest, StartRequest } from '../../../contract/internal/host.ts'
import { hostnameOf } from '../host/hostname.ts'
import type { MachineRow } from '../machines/machine-row-store.ts'

export function startRequest(fence: CommandHeader, seen: MachineRow, from_disk: string | null): StartRequest {
  return {
    ...fence,
    resources: seen.ceilings,
    hostname: hostnameOf(seen.id),
    layers: seen.layers,
    ...(seen.disk_layout === 'legacy' ? { full_copy: true } : {}),
    ...(from_disk === null ? {} : { from_disk }),
    ...volumesOf(seen),
  }
}

export function restoreRequest(
  fence: CommandHeader,
  seen: MachineRow,
  checkpoint_id: string,
  options: { renew_identity: boolean },
): RestoreRequest {
  const { renew_identity } = options
  return { ...fence, resources: seen.ceilings, hostname: hostnameOf(seen.id), checkpoint_id, renew_identity, ...volumesOf(seen) }
}

function volumesOf({ volumes }: Pick<MachineRow, 'volumes'>): { volumes?: MachineRow['volumes'] } {
  return volumes.length === 0 ? {} : { volumes }
}
