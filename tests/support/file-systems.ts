import { execFileSync } from 'node:child_process'
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

export interface SmallFileSystem {
  path: string
  close(): void
}

/** An ext4 of its own on a loop device, so that a test may fill it. */
export function smallFileSystem(size_gib: number): SmallFileSystem {
  const directory = mkdtempSync(path.join(tmpdir(), 'berth-small-'))
  const image = path.join(directory, 'image')
  const mounted = path.join(directory, 'mounted')
  mkdirSync(mounted)
  execFileSync('truncate', ['-s', `${size_gib}G`, image])
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

/** Takes every free block of the file system that holds `directory`. */
export async function fillFileSystem(directory: string): Promise<{ free(): Promise<void> }> {
  const file = path.join(directory, 'berth-test-filler')
  const { bavail, bsize } = statfsSync(directory)
  const fd = openSync(file, 'w')
  try {
    execFileSync('fallocate', ['-l', String(Math.max(0, bavail * bsize - (16 << 20))), file], { stdio: 'ignore' })
  } catch {
    // Less could be had than was promised: the writes below take what there is.
  }
  const block = Buffer.alloc(1 << 20, 1)
  try {
    for (let at = bavail * bsize; ; at += block.length) writeSync(fd, block, 0, block.length, at)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  } finally {
    closeSync(fd)
  }
  execFileSync('sync', ['-f', directory])
  return {
    free: () => {
      rmSync(file, { force: true })
      execFileSync('sync', ['-f', directory])
      return Promise.resolve()
    },
  }
}
