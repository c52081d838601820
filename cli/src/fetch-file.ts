import { chmod, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Workspace } from '../../sdk/typescript/src/main.ts'
import type { Progress } from './progress.ts'

/** The disk may fill up before the download is complete. */
export async function fetchFile(
  ws: Workspace,
  { there, here, mode }: { there: string; here: string; mode: number | null },
  progress: Progress,
  signal: AbortSignal,
): Promise<void> {
  const beside = partOf(here)
  try {
    const seen = async function* () {
      for await (const bytes of ws.files.stream(there, { signal })) {
        progress.add(bytes.length)
        yield bytes
      }
    }
    // Streams of Node.js 20.4 treat a write that a full disk cut short as complete.
    await writeFile(beside, seen(), { flag: 'wx' })
    if (mode !== null) await chmod(beside, mode)
    await rename(beside, here)
  } catch (error) {
    await rm(beside, { force: true })
    throw error
  }
}

/** Killed processes leave these behind; listings skip them. */
export const PART = /(?:^|\/)\.berth-part-\d+-[0-9a-f]{8}(?:\/|$)/

/** In the same folder, so that a rename replaces the target. */
export function partOf(file: string): string {
  return path.join(path.dirname(file), `.berth-part-${process.pid}-${crypto.randomUUID().slice(0, 8)}`)
}
