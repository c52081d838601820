import type { MachineVolume } from '../../../db/schema.ts'
import { HostFailure, type VolumesRequest } from '../hostd.ts'
import { running, type World } from './world.ts'

/** What a start and a restore give a machine: one that is not there is left out. */
export function given(world: World, volumes: readonly MachineVolume[] = []): MachineVolume[] {
  return volumes.filter(({ volume_id }) => world.volumes.has(volume_id))
}

export function setVolumes(world: World, request: VolumesRequest): void {
  const one = running(world, request)
  const missing = request.volumes.find(({ volume_id }) => !world.volumes.has(volume_id))
  if (missing !== undefined) throw new HostFailure('not_found', 'There is no such volume here', { retryable: false })
  one.volumes = [...request.volumes]
}

export function deleteVolume(world: World, volume_id: string): void {
  world.volumes.delete(volume_id)
  for (const one of world.machines.values()) one.volumes = given(world, one.volumes)
}
