import { createHash, randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { mkdir, open, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises'
import path from 'node:path'
import type { Clock } from '../../../lib/clock.ts'
import { syncFolder } from '../../../lib/sync-folder.ts'
import { type BlobPart, type Blobs, BlobError, type Digest, partOfBlob } from './blobs.ts'

/** Maximum parallel writes or syncs of one call. */
const AT_ONCE = 16
const DIGEST = /^[0-9a-f]{64}$/

export interface BlobFiles extends Blobs {
  /** Blobs last used before `before` and after `after` (milliseconds), folder by folder. */
  unusedSince(before: Date, after?: number): AsyncIterable<Digest>
  /** @returns true if the blob is gone, false if a writer used it since `before` */
  deleteUnused(digest: Digest, before: Date): Promise<boolean>
  /** Restores blobs that an interrupted sweep has left in the trash. Deletes temporary files that were begun before `before`. */
  dropLeftovers(before: Date): Promise<void>
}

interface BlobFolder {
  folder: string
  /** Unfinished files of writers. */
  temporary: string
  /** Blobs that a sweep is about to delete. */
  trash: string
  clock: Clock
}

/**
 * Stores blobs as files `<two digits>/<digest>` of one folder. A writer syncs a temporary file and renames it. The mtime of a file is the
 * time at which a writer last used the blob.
 */
export function openBlobFiles(folder: string, clock: Clock): BlobFiles {
  const blobs: BlobFolder = { folder, temporary: path.join(folder, 'tmp'), trash: path.join(folder, 'trash'), clock }
  return {
    put: (contents, stored = () => undefined) => put(blobs, contents, stored),
    get: (digest, part) => get(blobs, digest, part),
    has: (digest) => has(blobs, digest),
    delete: (digest) => rm(fileOf(blobs, digest), { force: true }),
    unusedSince: (before, after = -Infinity) => unusedSince(blobs, before, after),
    deleteUnused: (digest, before) => deleteUnused(blobs, digest, before),
    dropLeftovers: (before) => dropLeftovers(blobs, before),
  }
}

function fileOf({ folder }: BlobFolder, digest: Digest): string {
  return path.join(folder, digest.slice(0, 2), digest)
}

async function put(blobs: BlobFolder, contents: readonly Buffer[], stored: (content: Buffer) => void): Promise<Digest[]> {
  const { folder, temporary } = blobs
  const digests = contents.map(digestOf)
  const each = new Map(digests.map((digest, i) => [digest, contents[i] as Buffer]))
  const folders = new Set(digests.map((digest) => path.dirname(fileOf(blobs, digest))))
  await mkdir(temporary, { recursive: true, mode: 0o700 })
  const made = await mapInBatches([...folders], (each) => mkdir(each, { recursive: true, mode: 0o700 }))
  await mapInBatches([...each], ([digest, content]) => store(blobs, digest, content, stored))
  // Folders of existing blobs are synced too: another writer may have renamed a file into them without a sync yet.
  await mapInBatches([...folders], syncFolder)
  if (made.some((first) => first !== undefined)) await syncFolder(folder).then(() => syncFolder(path.dirname(folder)))
  return digests
}

async function store(blobs: BlobFolder, digest: Digest, content: Buffer, stored: (content: Buffer) => void): Promise<void> {
  // An existing blob is compared with its content: a damaged one is written again, since the caller relies on the blob.
  if ((await use(blobs, digest)) && (await holds(fileOf(blobs, digest), content))) return
  await write(blobs, digest, content)
  stored(content)
}

/** @returns false if there is no such blob */
async function use(blobs: BlobFolder, digest: Digest): Promise<boolean> {
  const now = blobs.clock.now()
  try {
    await utimes(fileOf(blobs, digest), now, now)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

async function write(blobs: BlobFolder, digest: Digest, content: Buffer): Promise<void> {
  const now = blobs.clock.now()
  const unfinished = path.join(blobs.temporary, `${now.getTime()}-${randomBytes(12).toString('hex')}`)
  const file = await open(unfinished, 'wx', 0o600)
  try {
    await file.writeFile(content)
    await file.utimes(now, now)
    await file.sync()
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  } finally {
    await file.close()
  }
  await rename(unfinished, fileOf(blobs, digest))
}

async function get(blobs: BlobFolder, digest: Digest, part: BlobPart | undefined): Promise<Buffer> {
  const content = await read(fileOf(blobs, digest))
    .catch(async (error: unknown) => {
      // A sweep may have moved the blob to the trash, and moves a used blob back. So the trash is read, and the file again.
      if (isMissing(error)) return read(path.join(blobs.trash, digest)).catch(() => read(fileOf(blobs, digest)))
      throw error
    })
    .catch((error: unknown) => {
      throw isMissing(error) ? new BlobError('missing', digest) : error
    })
  if (digestOf(content) !== digest) throw new BlobError('corrupt', digest)
  return partOfBlob(content, part)
}

async function has(blobs: BlobFolder, digest: Digest): Promise<boolean> {
  try {
    await stat(fileOf(blobs, digest))
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

async function* unusedSince(blobs: BlobFolder, before: Date, after: number): AsyncIterable<Digest> {
  const { folder } = blobs
  for (const name of await namesOf(folder)) {
    if (name.length !== 2) continue
    for (const digest of await namesOf(path.join(folder, name))) {
      if (!DIGEST.test(digest)) continue
      const used_ms = await usedAt(fileOf(blobs, digest))
      if (used_ms !== null && used_ms < before.getTime() && used_ms > after) yield digest
    }
  }
}

async function deleteUnused(blobs: BlobFolder, digest: Digest, before: Date): Promise<boolean> {
  const away = path.join(blobs.trash, digest)
  await mkdir(blobs.trash, { recursive: true, mode: 0o700 })
  try {
    await rename(fileOf(blobs, digest), away)
  } catch (error) {
    if (isMissing(error)) return true
    throw error
  }
  // The blob is in the trash. A writer that comes now writes the blob again; a writer that found the blob before has changed its mtime.
  if (await wasUsedBefore(away, before)) {
    await rm(away, { force: true })
    return true
  }
  await rename(away, fileOf(blobs, digest))
  return false
}

async function dropLeftovers(blobs: BlobFolder, before: Date): Promise<void> {
  const { temporary, trash } = blobs
  for (const name of await namesOf(trash)) {
    // An interrupted sweep left this blob in the trash. The blob is moved back, and the next sweep checks it again.
    if (DIGEST.test(name)) await rename(path.join(trash, name), fileOf(blobs, name)).catch(() => undefined)
  }
  for (const name of await namesOf(temporary)) {
    if (Number.parseInt(name, 10) < before.getTime()) await rm(path.join(temporary, name), { force: true })
  }
}

export function digestOf(content: Buffer): Digest {
  return createHash('sha256').update(content).digest('hex')
}

async function holds(file: string, content: Buffer): Promise<boolean> {
  try {
    if ((await stat(file)).size !== content.length) return false
    return (await read(file)).equals(content)
  } catch (error) {
    // The blob is in the trash or unreadable, so the caller writes it again.
    if (isMissing(error) || isUnreadable(error)) return false
    throw error
  }
}

function isUnreadable(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EIO'
}

async function read(file: string): Promise<Buffer> {
  return readFile(file, { flag: constants.O_RDONLY | constants.O_NOFOLLOW })
}

async function wasUsedBefore(file: string, before: Date): Promise<boolean> {
  const used_ms = await usedAt(file)
  return used_ms !== null && used_ms < before.getTime()
}

async function usedAt(file: string): Promise<number | null> {
  try {
    return (await stat(file)).mtimeMs
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

async function namesOf(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

export async function mapInBatches<T, R>(all: readonly T[], work: (one: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  for (let i = 0; i < all.length; i += AT_ONCE) results.push(...(await Promise.all(all.slice(i, i + AT_ONCE).map(work))))
  return results
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}
