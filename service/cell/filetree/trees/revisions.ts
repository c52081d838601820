import type { Digest } from './blobs.ts'
import type { DirectoryEntry } from './entries.ts'
import { readEarlierRoot, readTree, type TreeRow } from './store.ts'
import { filesOf, rememberStore, type Stores } from './blob-stores.ts'
import { emptyRoot, readRoot } from './tree.ts'

export interface Revision {
  revision: number
  root: DirectoryEntry
  /** Maximum bytes of all files of the tree. */
  bytes_max: number
  /** The command that runs on the tree. Until the command ends, only the command can make a revision. */
  execution_id: string | null
}

/** @returns null: no file-first workspace has this id */
export async function currentRevision(stores: Stores, workspace_id: string): Promise<Revision | null> {
  const row = await readTree(stores.db, workspace_id)
  if (row === null) return null
  rememberStore(stores, workspace_id, row.store_id)
  const { revision, bytes_max, execution_id } = row
  return { revision, root: await rootOf(stores, row, row.root), bytes_max, execution_id }
}

/** @returns null if the revision has been removed or never existed */
export async function revisionAt(stores: Stores, workspace_id: string, revision: number): Promise<Revision | null> {
  const row = await readTree(stores.db, workspace_id)
  if (row === null || revision > row.revision) return null
  const root = revision === row.revision ? row.root : await readEarlierRoot(stores.db, workspace_id, revision)
  if (root === undefined) return null
  const { bytes_max, execution_id } = row
  return { revision, root: await rootOf(stores, row, root), bytes_max, execution_id }
}

async function rootOf(stores: Stores, { store_id, created_at }: TreeRow, root: Digest | null): Promise<DirectoryEntry> {
  return root === null ? emptyRoot(created_at) : readRoot({ blobs: filesOf(stores, store_id) }, root)
}
