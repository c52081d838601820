import { randomBytes } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { createHash } from 'node:crypto'
import { LIMITS } from '../../../../contract/limits.ts'
import { syncFolder } from '../../../lib/sync-folder.ts'
import type { UploadPart } from './store.ts'

// The set-group-ID bit gives new entries the cell's group, so that builds can read them.
const FOLDER_MODE = 0o2750
const FILE_MODE = 0o640

export class TooMuch extends Error {}

/** The part is not received until its row exists. @throws TooMuch */
export async function writePart(folder: string, id: string, source: AsyncIterable<Buffer>, bytes_max: number): Promise<UploadPart> {
  const directory = join(folder, id)
  const made = await mkdir(directory, { mode: FOLDER_MODE, recursive: true })
  if (made !== undefined) await syncFolder(folder) // without the sync a power cut may lose the directory of a received part
  const name = randomBytes(12).toString('hex')
  const path = join(directory, name)
  const handle = await open(path, 'wx', FILE_MODE)
  let bytes = 0
  try {
    for await (const chunk of source) {
      bytes += chunk.length
      if (bytes > bytes_max) throw new TooMuch()
      await handle.writeFile(chunk)
    }
    await handle.sync()
  } catch (error) {
    await rm(path, { force: true })
    throw error
  } finally {
    await handle.close()
  }
  await syncFolder(directory)
  return { name, bytes }
}

export async function digestOfParts(folder: string, id: string, parts: readonly UploadPart[]): Promise<string> {
  const hash = createHash('sha256')
  for (const { name } of parts) for await (const chunk of createReadStream(join(folder, id, name))) hash.update(chunk as Buffer)
  return hash.digest('hex')
}

export async function removePart(folder: string, id: string, { name }: UploadPart): Promise<void> {
  await rm(join(folder, id, name), { force: true })
}

export async function removeUpload(folder: string, id: string): Promise<void> {
  await rm(join(folder, id), { recursive: true, force: true })
}

const UNUSED_MS = LIMITS.template_upload.unused_hours * 3600 * 1000

/** A recently modified folder without a row may belong to an upload that just begins, or to rows that a restored database lacks. */
export async function oldFolders(folder: string, now: Date): Promise<string[]> {
  const names = (await readdir(folder)).filter((name) => /^[0-9a-f-]{36}$/.test(name))
  const old: string[] = []
  for (const name of names) {
    const { mtimeMs } = await stat(join(folder, name)).catch(() => ({ mtimeMs: Infinity })) // removed meanwhile: counts as new
    if (mtimeMs < now.getTime() - UNUSED_MS) old.push(name)
  }
  return old
}
