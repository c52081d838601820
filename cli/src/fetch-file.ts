import { chmod, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Workspace } from '../../sdk/typescript/src/main.ts'
import type { Progress } from './progress.ts'

/** What is there stays as it is until all of it has come: the disk may be full before. */
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
    // A stream of Node.js 20.4 takes a write that a full disk cut short for a whole one.
    await writeFile(beside, seen(), { flag: 'wx' })
    if (mode !== null) await chmod(beside, mode)
    await rename(beside, here)
  } catch (error) {
    await rm(beside, { force: true })
    throw error
  }
}

/** What a call that ended at once has left of these is nobody's file. */
export const PART = /(?:^|\/)\.berth-part-\d+-[0-9a-f]{8}(?:\/|$)/

/** Beside it, where it can take its place by a rename. */
export function partOf(file: string): string {
  return path.join(path.dirname(file), `.berth-part-${process.pid}-${crypto.randomUUID().slice(0, 8)}`)
}
