import { statfs } from 'node:fs/promises'
import type { Clock } from './clock.ts'
import { fail } from './fail.ts'

/** What statfs(2) says of a file system. `files` is 0 where it has no fixed number of inodes. */
export interface DiskFacts {
  free_bytes: number
  total_bytes: number
  free_files: number
  files: number
}

export interface DiskState {
  free_bytes: number
  reserve_bytes: number
  /** Calls that would grow the disk are refused. */
  is_short: boolean
}

/**
 * Keeps a part of the data directory's file system free. PostgreSQL and the fences of hostd lie on it: when it is full, no row can be
 * written, so nothing can be suspended or deleted either.
 */
export interface DiskReserve {
  /**
   * Admits a write of so many bytes. The bytes count as used until the result is disposed of, because statfs does not know of them yet.
   * @throws dependency_unavailable when less than the reserve would be left
   */
  take(bytes: number): Promise<Disposable>
  look(): Promise<DiskState>
  /** Refusals since the process began. */
  refused(): number
}

export interface DiskReserveOptions {
  folder: string
  reserve_bytes: number
  clock: Clock
  /** In tests: what the file system says. */
  read?(folder: string): Promise<DiskFacts>
}

/** Many small writes share one look. Writes between two looks are in the books by `take`. */
const LOOK_MS = 250
const RETRY_SECONDS = 10
/** A file system without inodes is full as well. */
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
          if (is_held && bytes > 0) known = null // the next look sees what was written
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

/** For processes without a data directory, and for tests that have no disk to protect. */
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
