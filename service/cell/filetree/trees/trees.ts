import { readdir, rm } from 'node:fs/promises'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Db } from '../../../db/database.ts'
import type { Clock } from '../../../lib/clock.ts'
import { type DiskReserve, NO_RESERVE } from '../../../lib/disk-reserve.ts'
import type { AdoptResult } from './adopt-store.ts'
import type { BlobFiles } from './blob-files.ts'
import type { Blobs } from './blobs.ts'
import { type KeptRevisions, readWorkspacesOfStore } from './collect-store.ts'
import { createGrowth, createLeftovers, type Leftovers } from './growth.ts'
import type { LastRevision, LastRevisions } from './last-revisions.ts'
import { beginPublication, busySince, type Publication, type Publisher } from './publish.ts'
import { currentRevision, type Revision, revisionAt } from './revisions.ts'
import { orphanForksOf } from './store-marks.ts'
import { dropTree, readStore, readTree } from './store.ts'
import { blobsOf, filesOf, folderOf, followStore, lastRevisionsOf, noteRevision, type Stores, storeOf } from './blob-stores.ts'

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export interface Trees {
  /** null: no file-first workspace has this id. */
  current(workspace_id: string): Promise<Revision | null>
  revision(workspace_id: string): Promise<number | null>
  /** null: the revision has been removed or never existed. */
  at(workspace_id: string, revision: number): Promise<Revision | null>
  blobs(workspace_id: string): Blobs
  begin(workspace_id: string): Publication
  /** Runs the work on a workspace one at a time in this process. A conflict with another process appears at the publication. */
  inWorkspaceQueue<T>(workspace_id: string, work: () => Promise<T>): Promise<T>
  /** Removes the row, the revisions and the keys. The store is removed with the last of its trees. */
  remove(workspace_id: string): Promise<void>
  /** The store with the contents of a workspace: its own, or that of the first workspace in its chain of forks. The store never changes. */
  storeOf(workspace_id: string): Promise<string>
  stored(): Promise<string[]>
  store(store_id: string): BlobFiles
  folder(store_id: string): string
  busySince(workspace_id: string): Date | null
  readonly leftovers: Leftovers
  readonly reserve: DiskReserve
  lastRevisions(store_id: string): LastRevisions
  note(workspace_id: string, last: LastRevision): Promise<void>
  follow(workspace_id: string): Promise<AdoptResult>
  readonly kept: KeptRevisions
}

export interface TreesOptions {
  db: Db
  clock: Clock
  folder: string
  kept?: KeptRevisions
  reserve?: DiskReserve
}

const KEPT = { seconds: LIMITS.tree.revisions_kept_seconds_default, count: LIMITS.tree.revisions_kept_default }

interface TreesState {
  stores: Stores
  publisher: Publisher
  /** The last work in the queue of each workspace. */
  queues: Map<string, Promise<unknown>>
}

export function createTrees({ db, clock, folder, kept = KEPT, reserve = NO_RESERVE }: TreesOptions): Trees {
  const leftovers = createLeftovers(clock)
  const stores: Stores = { db, clock, folder, known: new Map() }
  const publisher: Publisher = { stores, growth: createGrowth(clock, reserve), leftovers, under_way: new Map() }
  const state: TreesState = { stores, publisher, queues: new Map() }
  return {
    current: (workspace_id) => currentRevision(stores, workspace_id),
    revision: async (workspace_id) => (await readTree(db, workspace_id))?.revision ?? null,
    at: (workspace_id, revision) => revisionAt(stores, workspace_id, revision),
    kept,
    reserve,
    leftovers,
    blobs: (workspace_id) => blobsOf(stores, workspace_id),
    storeOf: (workspace_id) => storeOf(stores, workspace_id),
    store: (store_id) => filesOf(stores, store_id),
    lastRevisions: (store_id) => lastRevisionsOf(stores, store_id),
    note: (workspace_id, last) => noteRevision(stores, workspace_id, last),
    follow: (workspace_id) => followStore(stores, workspace_id),
    folder: (store_id) => folderOf(stores, store_id),
    begin: (workspace_id) => beginPublication(publisher, workspace_id),
    busySince: (workspace_id) => busySince(publisher, workspace_id),
    inWorkspaceQueue: (workspace_id, work) => inWorkspaceQueue(state, workspace_id, work),
    stored: () => storedIn(folder),
    remove: (workspace_id) => inWorkspaceQueue(state, workspace_id, () => removeTree(stores, workspace_id)),
  }
}

async function inWorkspaceQueue<T>({ queues }: TreesState, workspace_id: string, work: () => Promise<T>): Promise<T> {
  const turn = (queues.get(workspace_id) ?? Promise.resolve()).then(work, work)
  queues.set(workspace_id, turn)
  try {
    return await turn
  } finally {
    if (queues.get(workspace_id) === turn) queues.delete(workspace_id)
  }
}

async function storedIn(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [] // nothing was ever stored
    throw error
  })
  return names.filter((name) => UUID.test(name))
}

async function removeTree(stores: Stores, workspace_id: string): Promise<void> {
  const { db, known } = stores
  const store_id = await readStore(db, workspace_id)
  await dropTree(db, workspace_id)
  known.delete(workspace_id)
  const lasts = lastRevisionsOf(stores, store_id)
  await lasts.drop(workspace_id)
  if ((await readWorkspacesOfStore(db, store_id)).length > 0 || (await orphanForksOf(lasts)).size > 0) return
  await rm(folderOf(stores, store_id), { recursive: true, force: true, maxRetries: 3 })
}
