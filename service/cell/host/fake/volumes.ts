import type { VolumeHere } from '../../../../contract/internal/host-inventory.ts'
import type { KeepVolumeRequest, VolumesRequest } from '../../../../contract/internal/host.ts'
import { HostFailure } from '../hostd.ts'
import { given } from './volumes-given.ts'
import { running, type World } from './world.ts'

export function setVolumes(world: World, request: VolumesRequest): void {
  const one = running(world, request)
  const missing = request.volumes.find(({ volume_id }) => !world.volumes.has(volume_id))
  if (missing !== undefined) throw new HostFailure('not_found', 'There is no such volume here', { retryable: false })
  one.volumes = [...request.volumes]
}

export function deleteVolume(world: World, volume_id: string): void {
  world.volumes.delete(volume_id)
  world.kept_volumes.delete(volume_id)
  for (const one of world.machines.values()) one.volumes = given(world.volumes, one.volumes)
}

export function keepVolume(world: World, { subject, keep }: KeepVolumeRequest): void {
  if (!world.volumes.has(subject.id)) throw new HostFailure('not_found', 'There is no such volume here', { retryable: false })
  if (!keep) world.kept_volumes.delete(subject.id)
  else if (!world.kept_volumes.has(subject.id)) world.kept_volumes.set(subject.id, world.clock.now().toISOString())
}

export function volumesHere({ volumes, kept_volumes }: World): VolumeHere[] {
  return [...volumes].map((volume_id) => {
    const kept_since = kept_volumes.get(volume_id)
    return { volume_id, ...(kept_since === undefined ? {} : { kept_since }) }
  })
}
