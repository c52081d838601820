import { type Blobs, BlobTrouble, type Digest } from '../trees/blobs.ts'
import type { DirectoryEntry } from '../trees/entries.ts'
import { readRoot } from '../trees/tree.ts'

/** The root of a tree that may be gone, or of no tree at all: null then. */
export async function readRootIfThere(blobs: Pick<Blobs, 'get'>, digest: Digest): Promise<DirectoryEntry | null> {
  try {
    return await readRoot({ blobs }, digest)
  } catch (error) {
    if (error instanceof BlobTrouble) return null
    throw error
  }
}
