import { type Blobs, BlobError, type Digest } from '../trees/blobs.ts'
import type { DirectoryEntry } from '../trees/entries.ts'
import { readRoot } from '../trees/tree.ts'

/** @returns null: a blob is gone, or the digest is no tree */
export async function readRootIfThere(blobs: Pick<Blobs, 'get'>, digest: Digest): Promise<DirectoryEntry | null> {
  try {
    return await readRoot({ blobs }, digest)
  } catch (error) {
    if (error instanceof BlobError) return null
    throw error
  }
}
