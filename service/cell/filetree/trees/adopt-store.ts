import type { Db } from '../../../db/database.ts'
import { type Blobs, BlobError, type Digest } from './blobs.ts'
import { forwardTree } from './adopt-rows-store.ts'
import { markStoreAhead } from './store-marks.ts'
import type { LastRevisions } from './last-revisions.ts'
import { readTree } from './store.ts'
import { createMarks, markTree, readRoot } from './tree.ts'

export type AdoptResult = 'current' | 'followed' | 'unreadable'

export interface StoreAdoption {
  workspace_id: string
  store: string
  blobs: Blobs
  lasts: LastRevisions
  now: Date
}

export async function adoptStoreRevision(db: Db, { workspace_id, store, blobs, lasts, now }: StoreAdoption): Promise<AdoptResult> {
  // The record is read before the row. A record is written after its row, so only a restored database has a row older than the record.
  const last = await lasts.newest(workspace_id)
  const row = await readTree(db, workspace_id)
  if (last === null || row === null || row.revision >= last.revision) return 'current'
  await markStoreAhead(store, now)
  if (!(await isWhole(blobs, last.root))) {
    await lasts.setAside(workspace_id, last)
    return 'unreadable'
  }
  const { page } = await readRoot({ blobs }, last.root)
  const { entries = 0, bytes = 0 } = page ?? {}
  // The collector may have removed blobs of the row's revision, because that revision was not the newest.
  const keeps_earlier = row.root === null || (await isWhole(blobs, row.root))
  const is_moved = await forwardTree(db, { workspace_id, ...last, entries, bytes, now, keeps_earlier })
  return is_moved ? 'followed' : 'current'
}

async function isWhole(blobs: Blobs, root: Digest): Promise<boolean> {
  try {
    await markTree({ blobs }, root, createMarks())
    return true
  } catch (error) {
    if (error instanceof BlobError) return false
    throw error
  }
}
