import { execFileSync } from 'node:child_process'
import { chmodSync, closeSync, fsyncSync, mkdirSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setImmediate } from 'node:timers/promises'

export interface SmallFileSystem {
  path: string
  close(): void
}

export function smallFileSystem(size_gib: number): SmallFileSystem {
  const directory = mkdtempSync(path.join(tmpdir(), 'berth-small-'))
  chmodSync(directory, 0o755) // the users of the service must pass through this folder
  const image = path.join(directory, 'image')
  const mounted = path.join(directory, 'mounted')
  mkdirSync(mounted)
  execFileSync('truncate', ['-s', `${Math.round(size_gib * 1024)}M`, image])
  execFileSync('mkfs.ext4', ['-q', '-m', '0', '-E', 'lazy_itable_init=1,nodiscard', image])
  execFileSync('mount', ['-o', 'loop', image, mounted])
  return {
    path: mounted,
    close() {
      execFileSync('umount', ['-l', mounted])
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Only a write shows exactly when the disk is full, so the bytes before are only allocated. */
const WRITTEN_BYTES = 128 << 20

/**
 * Fills the file system except `left_bytes`. Between writes, other code can notice that connections have ended: the next call would use
 * one.
 */
export async function fillFileSystem(directory: string, left_bytes = 0): Promise<{ free(): void }> {
  const file = path.join(directory, 'berth-test-filler')
  const fd = openSync(file, 'w')
  const block = Buffer.alloc(1 << 20, 1)
  const free_bytes = () => {
    const { bavail, bsize } = statfsSync(directory)
    return bavail * bsize
  }
  const taken_bytes = Math.max(0, free_bytes() - left_bytes - WRITTEN_BYTES)
  if (taken_bytes > 0) execFileSync('fallocate', ['--length', String(taken_bytes), file])
  try {
    for (let at = taken_bytes; free_bytes() > left_bytes; at += block.length) {
      writeSync(fd, block, 0, block.length, at)
      fsyncSync(fd) // free space is only updated after a sync
      await setImmediate()
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  } finally {
    closeSync(fd)
  }
  execFileSync('sync', ['-f', directory])
  for (let turn = 0; turn < 2; turn += 1) await setImmediate()
  return {
    free() {
      rmSync(file, { force: true })
      execFileSync('sync', ['-f', directory])
    },
  }
}
