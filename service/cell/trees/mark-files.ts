import { open, stat, utimes } from 'node:fs/promises'

/** A file whose time says since when something is so: a restart does not count from the beginning. */
export async function writeMark(mark: string, now: Date): Promise<void> {
  await using file = await open(mark, 'w', 0o600)
  await file.sync()
  await utimes(mark, now, now)
}

/** null: there is no such file. */
export async function timeOf(mark: string): Promise<number | null> {
  try {
    return (await stat(mark)).mtimeMs
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  }
}
