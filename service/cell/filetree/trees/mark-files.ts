import { open, stat, utimes } from 'node:fs/promises'

/** The time of the mark is the mtime of its file, because this survives a restart. */
export async function writeMark(mark: string, now: Date): Promise<void> {
  await using file = await open(mark, 'w', 0o600)
  await file.sync()
  await utimes(mark, now, now)
}

export async function timeOf(mark: string): Promise<number | null> {
  try {
    return (await stat(mark)).mtimeMs
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  }
}
