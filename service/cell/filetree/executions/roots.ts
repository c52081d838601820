import { type Blobs, BlobError, type Digest } from '../trees/blobs.ts'
import type { DirectoryEntry } from '../trees/entries.ts'
import { readRoot } from '../trees/tree.ts'

/** @returns null if a blob is missing, or the digest does not name a tree */
export async function readRootIfThere(blobs: Pick<Blobs, 'get'>, digest: Digest): Promise<DirectoryEntry | null> {
  try {
    return await readRoot({ blobs }, digest)
  } catch (error) {
    if (error instanceof BlobError) return null
    throw error
  }
}
