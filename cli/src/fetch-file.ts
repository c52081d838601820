import { chmod, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Workspace } from '../../sdk/typescript/src/main.ts'
import type { Progress } from './progress.ts'

/** Downloads to a temporary file, because the disk may become full before the end. */
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
    // writeFile is used because streams of Node.js 20.4 report a write as complete that a full disk cut short.
    await writeFile(beside, seen(), { flag: 'wx' })
    if (mode !== null) await chmod(beside, mode)
    await rename(beside, here)
  } catch (error) {
    await rm(beside, { force: true })
    throw error
  }
}

/** Names of temporary files. Killed processes leave them, so listings skip them. */
export const PART = /(?:^|\/)\.berth-part-\d+-[0-9a-f]{8}(?:\/|$)/

/** In the same folder, so that a rename can replace the target. */
export function partOf(file: string): string {
  return path.join(path.dirname(file), `.berth-part-${process.pid}-${crypto.randomUUID().slice(0, 8)}`)
}
