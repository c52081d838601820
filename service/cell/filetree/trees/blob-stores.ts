import path from 'node:path'
import type { Db } from '../../../db/database.ts'
import type { Clock } from '../../../lib/clock.ts'
import { type AdoptResult, adoptStoreRevision } from './adopt-store.ts'
import { type BlobFiles, openBlobFiles } from './blob-files.ts'
import type { Blobs } from './blobs.ts'
import { type LastRevision, type LastRevisions, openLastRevisions } from './last-revisions.ts'
import { readTree } from './store.ts'

/** The folders with the contents of trees. A workspace and its forks share one folder. */
export interface Stores {
  db: Db
  clock: Clock
  folder: string
  /** Cache: the store of each workspace that was read before. A workspace's store never changes. */
  known: Map<string, string>
}

const KNOWN_MAX = 10_000

export async function storeOf(stores: Stores, workspace_id: string): Promise<string> {
  const known = stores.known.get(workspace_id)
  if (known !== undefined) return known
  const row = await readTree(stores.db, workspace_id)
  if (row !== null) rememberStore(stores, workspace_id, row.store_id)
  return row?.store_id ?? workspace_id
}

export function rememberStore({ known }: Stores, workspace_id: string, store_id: string): void {
  if (known.size >= KNOWN_MAX) known.clear()
  known.set(workspace_id, store_id)
}

export function folderOf({ folder }: Stores, store_id: string): string {
  return path.join(folder, store_id)
}

export function filesOf(stores: Stores, store_id: string): BlobFiles {
  return openBlobFiles(folderOf(stores, store_id), stores.clock)
}

export function blobsOf(stores: Stores, workspace_id: string): Blobs {
  const found = async () => filesOf(stores, await storeOf(stores, workspace_id))
  return {
    put: async (contents, stored) => (await found()).put(contents, stored),
    get: async (digest, part) => (await found()).get(digest, part),
    has: async (digest) => (await found()).has(digest),
    delete: async (digest) => (await found()).delete(digest),
  }
}

export function lastRevisionsOf(stores: Stores, store_id: string): LastRevisions {
  return openLastRevisions(folderOf(stores, store_id))
}

export async function noteRevision(stores: Stores, workspace_id: string, last: LastRevision): Promise<void> {
  return lastRevisionsOf(stores, await storeOf(stores, workspace_id)).note(workspace_id, last)
}

/** After a restore of the database: updates the row to the last revision that the store recorded. */
export async function followStore(stores: Stores, workspace_id: string): Promise<AdoptResult> {
  const { db, clock } = stores
  const store_id = await storeOf(stores, workspace_id)
  const of_store = { store: folderOf(stores, store_id), lasts: lastRevisionsOf(stores, store_id) }
  return adoptStoreRevision(db, { workspace_id, ...of_store, blobs: blobsOf(stores, workspace_id), now: clock.now() })
}
