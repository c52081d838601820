import type { CheckpointInfo, Machine, Quarantined, SubjectFiles } from '../../../contract/internal/host-inventory.ts'

// Host data that no row names (decision 70). With a fence up to the rows' highest, it is garbage of a known attempt.
// With a higher fence it may be valid: this database was restored to an earlier time, or never had its row.

export interface Naming {
  ownership_epoch: number
  disk: string | null
  checkpoint_id: string | null
  checkpoints: string[]
}

export interface OrphanFiles {
  disks: string[]
  checkpoints: CheckpointInfo[]
}

export function makerOf(disk: string): { epoch: number; fence: number } {
  const [, epoch, fence] = /^e(\d+)\.(\d+)$/.exec(disk) ?? []
  return { epoch: Number(epoch ?? 0), fence: Number(fence ?? Number.MAX_SAFE_INTEGER) } // the highest: a foreign name is never deleted
}

/** @param machine its disk is no orphan, whatever the row says. */
export function orphanFilesOf(row: Naming, files: SubjectFiles, machine: Machine | undefined): OrphanFiles {
  return {
    disks: files.disks.filter((name) => name !== row.disk && name !== machine?.disk),
    checkpoints: files.checkpoints.filter(({ checkpoint_id }) => !row.checkpoints.includes(checkpoint_id)),
  }
}

export interface HostAhead extends OrphanFiles {
  machine: Machine | undefined
}

/**
 * @param fences data is newer than the rows if its fence is above `known`, their highest, and at most `ours`. The next pass handles higher
 * ones.
 */
export function hostAheadOf(
  row: Naming,
  files: SubjectFiles | undefined,
  machine: Machine | undefined,
  fences: { known: number; ours: number },
): HostAhead | null {
  const isAhead = (fence: number) => fence > fences.known && fence <= fences.ours
  const found = files === undefined ? { disks: [], checkpoints: [] } : orphanFilesOf(row, withoutQuarantined(files), machine)
  const ahead = {
    machine: machine !== undefined && machine.disk !== row.disk && isAhead(machine.fence) ? machine : undefined,
    disks: found.disks.filter((name) => isAhead(makerOf(name).fence)),
    checkpoints: found.checkpoints.filter(({ fence }) => isAhead(fence)),
  }
  return ahead.machine === undefined && ahead.disks.length + ahead.checkpoints.length === 0 ? null : ahead
}

export function withoutQuarantined(files: SubjectFiles): SubjectFiles {
  const kept = new Set(files.quarantined.map(({ name }) => name))
  return {
    ...files,
    disks: files.disks.filter((name) => !kept.has(name)),
    checkpoints: files.checkpoints.filter(({ checkpoint_id }) => !kept.has(checkpoint_id)),
  }
}

export type Repair =
  | { kind: 'keep' }
  | { kind: 'running'; machine: Machine }
  | { kind: 'suspended'; checkpoint: CheckpointInfo }
  | { kind: 'failed'; disk: string; epoch: number }

/**
 * A running machine is the state that its user last saw. Without one, the newest disk of a later epoch replaces what the row names, or else
 * the newest checkpoint.
 * A disk comes first, because the workspace was running on it. Data of the row's own epoch replaces what the row names only if that is
 * gone.
 */
export function repairOf(row: Naming, files: SubjectFiles | undefined, ahead: HostAhead, own: Machine | undefined): Repair {
  if (ahead.machine !== undefined) return { kind: 'running', machine: ahead.machine }
  if (own !== undefined) return { kind: 'keep' }
  const checkpoint = newest(
    ahead.checkpoints.filter(({ disk_only }) => disk_only !== true),
    ({ fence }) => fence,
  )
  const disk = newest(ahead.disks, (name) => makerOf(name).fence)
  const isBelieved = (epoch: number) => epoch <= row.ownership_epoch && isHere(row, files)
  if (disk !== undefined) {
    const { epoch } = makerOf(disk)
    return isBelieved(epoch) ? { kind: 'keep' } : { kind: 'failed', disk, epoch }
  }
  return checkpoint === undefined || isBelieved(checkpoint.epoch) ? { kind: 'keep' } : { kind: 'suspended', checkpoint }
}

function isHere({ disk, checkpoint_id }: Naming, files: SubjectFiles | undefined): boolean {
  if (disk !== null) return files?.disks.includes(disk) === true
  return files?.checkpoints.some((one) => one.checkpoint_id === checkpoint_id) === true
}

function newest<T>(list: T[], fenceOf: (one: T) => number): T | undefined {
  return list.reduce<T | undefined>((best, one) => (best === undefined || fenceOf(one) > fenceOf(best) ? one : best), undefined)
}

const DAY_MS = 24 * 3600 * 1000

/** If the clock is before the start of the quarantine, the quarantine has not ended. */
export function isOver({ since }: Quarantined, days: number, now: Date): boolean {
  return now.getTime() - new Date(since).getTime() >= days * DAY_MS
}
