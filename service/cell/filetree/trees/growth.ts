import { LIMITS } from '../../../../contract/limits.ts'
import type { Clock } from '../../../lib/clock.ts'
import type { DiskReserve } from '../../../lib/disk-reserve.ts'
import { TreeFull } from './full.ts'

/**
 * Limits the bytes that a workspace writes in an hour. Earlier revisions stay that long, beyond the size limit: a caller that rewrites
 * one file over and over would fill the disk.
 */
export interface Growth {
  /** @throws TreeFull if too much was written within the hour; dependency_unavailable if the disk is nearly full */
  take(workspace_id: string, bytes: number, disk_bytes: number): Promise<WriteReservation>
  readonly reserve: DiskReserve
}

export interface WriteReservation extends Disposable {
  /** Reports bytes that were written. Blobs that existed need no space and are not reported. */
  stored(bytes: number): void
}

/** The grace time plus the time of the collector's next passes: after this, unreferenced blobs have been removed. */
const WINDOW_MS = (LIMITS.tree.blob_grace_seconds + 600) * 1000
const MINUTE_MS = 60_000
const NAMES_MAX = 20_000
const BLOCK_BYTES = 4096

/** The least limit, so that a workspace whose disk was made smaller than its files can still delete files. */
const DISK_BYTES_MIN = 64 << 20

type Minutes = Map<number, number>

export function createGrowth(clock: Clock, reserve: DiskReserve): Growth {
  const workspaces = new Map<string, Minutes>() // least recently used first
  const minutesOf = (workspace_id: string): Minutes => {
    const minutes = workspaces.get(workspace_id) ?? new Map<number, number>()
    const oldest = (clock.monotonic_ms() - WINDOW_MS) / MINUTE_MS
    for (const minute of minutes.keys()) if (minute < oldest) minutes.delete(minute)
    workspaces.delete(workspace_id)
    workspaces.set(workspace_id, minutes)
    if (workspaces.size > NAMES_MAX) workspaces.delete(workspaces.keys().next().value ?? '')
    return minutes
  }
  return {
    reserve,
    async take(workspace_id, bytes, disk_bytes) {
      const minutes = minutesOf(workspace_id)
      const written = [...minutes.values()].reduce((sum, each) => sum + each, 0)
      const most = LIMITS.tree.written_disks_per_hour_max * Math.max(disk_bytes, DISK_BYTES_MIN)
      if (written + bytes > most) throw new TreeFull('written')
      const held = await reserve.take(bytes)
      const minute = Math.floor(clock.monotonic_ms() / MINUTE_MS)
      const add = (more: number) => minutes.set(minute, (minutes.get(minute) ?? 0) + more)
      add(bytes)
      return {
        stored: (stored) => void add(stored - bytes),
        [Symbol.dispose]: () => held[Symbol.dispose](),
      }
    },
  }
}

export function sizeOnDisk(contents: readonly Buffer[]): number {
  return contents.reduce((sum, { length }) => sum + Math.ceil(length / BLOCK_BYTES) * BLOCK_BYTES, 0)
}

/** Stores that may contain unreferenced blobs of refused changes. */
export interface Leftovers {
  note(store_id: string): void
  due(): string[]
  collected(store_id: string, before: Date): void
}

export function createLeftovers(clock: Clock): Leftovers {
  const stores = new Map<string, { first_ms: number; last_ms: number }>()
  return {
    note(store_id) {
      const now_ms = clock.now().getTime()
      stores.set(store_id, { first_ms: stores.get(store_id)?.first_ms ?? now_ms, last_ms: now_ms })
    },
    due() {
      const before_ms = clock.now().getTime() - LIMITS.tree.blob_grace_seconds * 1000
      return [...stores].filter(([, { first_ms }]) => first_ms < before_ms).map(([store_id]) => store_id)
    },
    collected(store_id, before) {
      const known = stores.get(store_id)
      if (known === undefined) return
      if (known.last_ms < before.getTime()) stores.delete(store_id)
      else stores.set(store_id, { ...known, first_ms: clock.now().getTime() }) // later leftovers need another collection
    },
  }
}
