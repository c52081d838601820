import { statfs } from 'node:fs/promises'
import type { Clock } from './clock.ts'
import { fail } from './fail.ts'

/** Result of statfs(2). `files` is 0 on a file system without an inode limit. */
export interface DiskFacts {
  free_bytes: number
  total_bytes: number
  free_files: number
  files: number
}

export interface DiskState {
  free_bytes: number
  reserve_bytes: number
  is_short: boolean
}

/**
 * Refuses writes that would fill the data directory's file system. PostgreSQL and hostd's fencing tokens are on it. If it were full, no row
 * could be written, so nothing could be suspended or deleted.
 */
export interface DiskReserve {
  /**
   * Admits a write. Its bytes count as used until the result is disposed, because statfs does not include them yet.
   * @throws dependency_unavailable if less than the reserve would be left
   */
  take(bytes: number): Promise<Disposable>
  look(): Promise<DiskState>
  refused(): number
}

export interface DiskReserveOptions {
  folder: string
  reserve_bytes: number
  clock: Clock
  read?(folder: string): Promise<DiskFacts>
}

/** Writes within this time share one statfs. Bytes admitted since then are added by `take`. */
const LOOK_MS = 250
const RETRY_SECONDS = 10
const FREE_FILES_MIN = 0.02

export function createDiskReserve({ folder, reserve_bytes, clock, read = readDisk }: DiskReserveOptions): DiskReserve {
  let known: { at_ms: number; facts: Promise<DiskFacts> } | null = null
  let taken_bytes = 0
  let refused = 0
  const facts = (): Promise<DiskFacts> => {
    const now_ms = clock.monotonic_ms()
    if (known === null || now_ms - known.at_ms >= LOOK_MS || now_ms < known.at_ms) known = { at_ms: now_ms, facts: read(folder) }
    return known.facts
  }
  return {
    async take(bytes) {
      const disk = await facts()
      if (disk.free_bytes - taken_bytes - bytes < reserve_bytes || lacksFiles(disk)) {
        refused += 1
        throw fail('dependency_unavailable', null, 'The disk of this installation is nearly full: nothing that would fill it is accepted', {
          retry_after_seconds: RETRY_SECONDS,
        })
      }
      taken_bytes += bytes
      let is_held = true
      return {
        [Symbol.dispose]() {
          if (is_held) taken_bytes -= bytes
          if (is_held && bytes > 0) known = null // reads again, since a new statfs includes the written bytes
          is_held = false
        },
      }
    },
    async look() {
      const disk = await facts()
      return { free_bytes: disk.free_bytes, reserve_bytes, is_short: disk.free_bytes - taken_bytes < reserve_bytes || lacksFiles(disk) }
    },
    refused: () => refused,
  }
}

/** No reserve, for processes without a data directory and for tests. */
export const NO_RESERVE: DiskReserve = {
  take: () => Promise.resolve({ [Symbol.dispose]() {} }),
  look: () => Promise.resolve({ free_bytes: Infinity, reserve_bytes: 0, is_short: false }),
  refused: () => 0,
}

function lacksFiles({ free_files, files }: DiskFacts): boolean {
  return files > 0 && free_files < files * FREE_FILES_MIN
}

async function readDisk(folder: string): Promise<DiskFacts> {
  const { bavail, bsize, blocks, ffree, files } = await statfs(folder)
  return { free_bytes: bavail * bsize, total_bytes: blocks * bsize, free_files: ffree, files }
}
