import { readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Db } from '../../../db/database.ts'
import type { MadeBy } from '../../../db/column-types.ts'
import type { Clock } from '../../../lib/clock.ts'
import { type DiskReserve, NO_RESERVE } from '../../../lib/disk-reserve.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { type BlobFiles, openBlobFiles } from './blob-files.ts'
import type { Blobs, Digest } from './blobs.ts'
import type { DirectoryEntry } from './entries.ts'
import { TreeFull } from './full.ts'
import { createGrowth, createLeftovers, type Leftovers, sizeOnDisk } from './growth.ts'
import { checkChanges } from './names.ts'
import { withRevisionsLocked, type KeptRevisions, readWorkspacesOfStore } from './collect-store.ts'
import { diffTrees, noCounts, type Counts } from './diff.ts'
import { type AdoptResult, adoptStoreRevision } from './adopt-store.ts'
import { orphanForksOf } from './store-marks.ts'
import { type LastRevision, type LastRevisions, openLastRevisions } from './last-revisions.ts'
import type { PageReads } from './pages.ts'
import { dropTree, type KeptAnswer, moveTree, readEarlierRoot, readStore, readTree, type TreeMove, type TreeRow } from './store.ts'
import { type EditedTree, editTree, emptyRoot, readRoot, type TreeChange } from './tree.ts'

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export interface Revision {
  revision: number
  root: DirectoryEntry
  /** Maximum bytes of all files of the tree. */
  bytes_max: number
  /** The command that runs on the tree. Until it ends, only it can make a revision. */
  execution_id: string | null
}

/** The tree is at another revision; nothing was published. */
export class TreeMoved extends Error {
  readonly current_revision: number

  constructor(current_revision: number) {
    super(`The tree is at revision ${current_revision}`)
    this.current_revision = current_revision
  }
}

/** A command runs on the tree; nothing was published. */
export class TreeBusy extends Error {
  readonly execution_id: string

  constructor(execution_id: string) {
    super(`Execution ${execution_id} runs on the tree`)
    this.execution_id = execution_id
  }
}

/** The revision to restore is not kept; nothing was published. */
export class RevisionGone extends Error {
  readonly revision: number

  constructor(revision: number) {
    super(`Revision ${revision} is not kept`)
    this.revision = revision
  }
}

export interface PublishOptions {
  contents?: readonly Buffer[]
  kept?: KeptAnswer | undefined
  made_by?: MadeBy
}

/** Preparation of a revision. The collector keeps its contents until it is disposed. */
export interface Publication extends Disposable {
  put(contents: readonly Buffer[]): Promise<Digest[]>
  /**
   * Applies changes to the base and makes the next revision, atomically and durably. `options.contents` are stored only after the size
   * limits were checked.
   * @throws TreeMoved, TreeBusy, TreeFull, TreeMismatch, and a Failure for invalid names
   */
  publish(base_revision: number, changes: readonly TreeChange[], options?: PublishOptions): Promise<Revision>
  /**
   * Makes a kept revision current again, as a new revision on the base.
   * @throws TreeMoved, TreeBusy, TreeFull, RevisionGone
   */
  restore(base_revision: number, revision: number, made_by?: MadeBy): Promise<Revision>
}

export interface Trees {
  /** null: no file-first workspace has this id. */
  current(workspace_id: string): Promise<Revision | null>
  revision(workspace_id: string): Promise<number | null>
  /** null: the revision is not kept or never existed. */
  at(workspace_id: string, revision: number): Promise<Revision | null>
  blobs(workspace_id: string): Blobs
  begin(workspace_id: string): Publication
  /** Runs work on a workspace one at a time, in this process. Conflicts with other processes appear when they publish. */
  inWorkspaceQueue<T>(workspace_id: string, work: () => Promise<T>): Promise<T>
  /** Removes row, revisions and keys. The store goes with its last tree. */
  remove(workspace_id: string): Promise<void>
  /**
   * The store with a workspace's contents: its own, or that of the workspace it was forked from, directly or indirectly. It never changes.
   */
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
const STORES_KNOWN_MAX = 10_000

export function createTrees({ db, clock, folder, kept: kept_revisions = KEPT, reserve = NO_RESERVE }: TreesOptions): Trees {
  const growth = createGrowth(clock, reserve)
  const leftovers = createLeftovers(clock)
  const publications = new Map<string, Set<Date>>()
  const turns = new Map<string, Promise<unknown>>()
  const stores = new Map<string, string>()
  const folderOf = (store_id: string) => path.join(folder, store_id)
  const store = (store_id: string) => openBlobFiles(folderOf(store_id), clock)
  const storeOf = async (workspace_id: string) => {
    const known = stores.get(workspace_id)
    if (known !== undefined) return known
    const row = await readTree(db, workspace_id)
    if (row !== null) noteStore(workspace_id, row.store_id)
    return row?.store_id ?? workspace_id
  }
  const noteStore = (workspace_id: string, store_id: string) => {
    if (stores.size >= STORES_KNOWN_MAX) stores.clear()
    stores.set(workspace_id, store_id)
  }
  const blobsOf = (workspace_id: string): Blobs => {
    const found = async () => store(await storeOf(workspace_id))
    return {
      put: async (contents, stored) => (await found()).put(contents, stored),
      get: async (digest, part) => (await found()).get(digest, part),
      has: async (digest) => (await found()).has(digest),
      delete: async (digest) => (await found()).delete(digest),
    }
  }

  const lastRevisions = (store_id: string) => openLastRevisions(folderOf(store_id))
  const note: Trees['note'] = async (workspace_id, last) => lastRevisions(await storeOf(workspace_id)).note(workspace_id, last)
  const follow: Trees['follow'] = async (workspace_id) => {
    const store_id = await storeOf(workspace_id)
    const of_store = { store: folderOf(store_id), lasts: lastRevisions(store_id) }
    return adoptStoreRevision(db, { workspace_id, ...of_store, blobs: blobsOf(workspace_id), now: clock.now() })
  }

  const current: Trees['current'] = async (workspace_id) => {
    const row = await readTree(db, workspace_id)
    if (row === null) return null
    noteStore(workspace_id, row.store_id)
    const { revision, bytes_max, execution_id } = row
    return { revision, root: await rootOf(row, row.root), bytes_max, execution_id }
  }
  const rootOf = async ({ store_id, created_at }: TreeRow, root: Digest | null) =>
    root === null ? emptyRoot(created_at) : readRoot({ blobs: store(store_id) }, root)

  const at: Trees['at'] = async (workspace_id, revision) => {
    const row = await readTree(db, workspace_id)
    if (row === null || revision > row.revision) return null
    const root = revision === row.revision ? row.root : await readEarlierRoot(db, workspace_id, revision)
    if (root === undefined) return null
    const { bytes_max, execution_id } = row
    return { revision, root: await rootOf(row, root), bytes_max, execution_id }
  }
  const baseOf = async (workspace_id: string, base_revision: number): Promise<Revision> => {
    const base = await current(workspace_id)
    if (base === null) throw new TreeMoved(base_revision)
    if (base.execution_id !== null) throw new TreeBusy(base.execution_id)
    if (base.revision !== base_revision) throw new TreeMoved(base.revision)
    // The database may have been restored since this process started: no new revision may reuse an acknowledged number.
    const last = await lastRevisions(await storeOf(workspace_id)).newest(workspace_id)
    if (last !== null && last.revision > base_revision && (await follow(workspace_id)) === 'followed') throw new TreeMoved(last.revision)
    return base
  }
  const commit = async (workspace_id: string, base: Revision, edited: EditedTree, said: CommitDetails): Promise<Revision> => {
    const { entries, bytes } = sizeUnder(base, edited.root)
    await failpoint('tree.T0')
    // Removals continue on a full disk. A smaller content that replaces a larger one does not: both are kept for an hour.
    const { contents } = said
    if (contents.length === 0 && isSmaller(base, edited.root)) await blobsOf(workspace_id).put(edited.blobs)
    else await putCounted(workspace_id, base.bytes_max, [...contents, ...edited.blobs])
    await failpoint('tree.T1')
    const { revision: base_revision, bytes_max } = base
    const move = { workspace_id, base_revision, root: edited.digest, entries, bytes, now: said.now, ...said.of }
    const moved = said.restores === null ? await moveTree(db, move) : await restoreTree(workspace_id, said.restores, move)
    await failpoint('tree.T2')
    if (!moved) throw notMoved(await readTree(db, workspace_id), base_revision)
    await note(workspace_id, { revision: base_revision + 1, root: edited.digest })
    return { revision: base_revision + 1, root: edited.root, bytes_max, execution_id: null }
  }
  const putCounted = async (workspace_id: string, disk_bytes: number, contents: readonly Buffer[]): Promise<Digest[]> => {
    using taken = await growth.take(workspace_id, sizeOnDisk(contents), disk_bytes)
    let stored_bytes = 0
    const digests = await blobsOf(workspace_id).put(contents, (content) => void (stored_bytes += sizeOnDisk([content])))
    taken.stored(stored_bytes)
    return digests
  }
  const restoreTree = async (workspace_id: string, revision: number, move: TreeMove) =>
    withRevisionsLocked(db, await storeOf(workspace_id), async (tx) => {
      const is_kept = revision === move.base_revision || (await readEarlierRoot(tx, workspace_id, revision)) !== undefined
      if (!is_kept) throw new RevisionGone(revision)
      return moveTree(tx, move)
    })

  const publish = async (
    workspace_id: string,
    base_revision: number,
    changes: readonly TreeChange[],
    { contents = [], kept, made_by }: PublishOptions,
  ): Promise<Revision> => {
    checkChanges(changes)
    const base = await baseOf(workspace_id, base_revision)
    const now = clock.now()
    const edited = await editTree({ blobs: blobsOf(workspace_id) }, base.root, changes, now.getTime())
    return commit(workspace_id, base, edited, {
      now,
      restores: null,
      contents,
      of: { kept: kept ?? null, made_by: made_by ?? null, changes: edited.counts },
    })
  }
  const restore = async (workspace_id: string, base_revision: number, revision: number, made_by: MadeBy | null): Promise<Revision> => {
    const base = await baseOf(workspace_id, base_revision)
    const earlier = await at(workspace_id, revision)
    if (earlier === null) throw new RevisionGone(revision)
    const blobs = blobsOf(workspace_id)
    const now = clock.now()
    const edited = await editTree({ blobs }, earlier.root, [], now.getTime()) // stores its root alone, unchanged
    const changes = await countDifferences({ blobs }, base.root, earlier.root)
    return commit(workspace_id, base, edited, { now, restores: revision, contents: [], of: { kept: null, made_by, changes } })
  }
  return {
    current,
    revision: async (workspace_id) => (await readTree(db, workspace_id))?.revision ?? null,
    at,
    kept: kept_revisions,
    reserve,
    leftovers,
    blobs: blobsOf,
    storeOf,
    store,
    lastRevisions,
    note,
    follow,
    folder: folderOf,
    begin(workspace_id) {
      const since = clock.now()
      const busy = publications.get(workspace_id) ?? new Set()
      publications.set(workspace_id, busy.add(since))
      let disk_bytes: Promise<number> | null = null
      let leaves = false
      const published = (made: Revision): Revision => {
        leaves = false
        return made
      }
      return {
        async put(contents) {
          disk_bytes ??= readTree(db, workspace_id).then((row) => row?.bytes_max ?? 0)
          const max = await disk_bytes
          leaves = true
          return putCounted(workspace_id, max, contents)
        },
        publish: (base_revision, changes, options = {}) => publish(workspace_id, base_revision, changes, options).then(published),
        restore: (base_revision, revision, made_by) => restore(workspace_id, base_revision, revision, made_by ?? null).then(published),
        [Symbol.dispose]() {
          if (leaves) leftovers.note(stores.get(workspace_id) ?? workspace_id)
          busy.delete(since)
          if (busy.size === 0) publications.delete(workspace_id)
        },
      }
    },
    busySince(workspace_id) {
      const [oldest] = [...(publications.get(workspace_id) ?? [])].sort((one, other) => one.getTime() - other.getTime())
      return oldest ?? null
    },
    async inWorkspaceQueue(workspace_id, work) {
      const turn = (turns.get(workspace_id) ?? Promise.resolve()).then(work, work)
      turns.set(workspace_id, turn)
      try {
        return await turn
      } finally {
        if (turns.get(workspace_id) === turn) turns.delete(workspace_id)
      }
    },
    async stored() {
      const names = await readdir(folder).catch((error: unknown) => {
        if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [] // nothing was ever stored
        throw error
      })
      return names.filter((name) => UUID.test(name))
    },
    async remove(workspace_id) {
      await this.inWorkspaceQueue(workspace_id, async () => {
        const store_id = await readStore(db, workspace_id)
        await dropTree(db, workspace_id)
        stores.delete(workspace_id)
        const lasts = lastRevisions(store_id)
        await lasts.drop(workspace_id)
        if ((await readWorkspacesOfStore(db, store_id)).length > 0 || (await orphanForksOf(lasts)).size > 0) return
        await rm(folderOf(store_id), { recursive: true, force: true, maxRetries: 3 })
      })
    },
  }
}

interface CommitDetails {
  now: Date
  /** The revision to make current again; null: the commit applies changes. */
  restores: number | null
  contents: readonly Buffer[]
  of: Pick<TreeMove, 'kept' | 'made_by' | 'changes'>
}

/** A tree above a limit may still shrink. */
function sizeUnder({ root: before, bytes_max }: Revision, { page }: DirectoryEntry): { entries: number; bytes: number } {
  const { entries = 0, bytes = 0 } = page ?? {}
  if (bytes > bytes_max && bytes > (before.page?.bytes ?? 0)) throw new TreeFull('bytes')
  if (entries > LIMITS.tree.entries_max && entries > (before.page?.entries ?? 0)) throw new TreeFull('entries')
  return { entries, bytes }
}

function isSmaller({ root: before }: Revision, { page }: DirectoryEntry): boolean {
  const { entries = 0, bytes = 0 } = page ?? {}
  const was = before.page ?? { entries: 0, bytes: 0 }
  return bytes <= was.bytes && entries <= was.entries && (bytes < was.bytes || entries < was.entries)
}

/** @returns null if there are too many to count while the caller waits */
async function countDifferences(reads: PageReads, before: DirectoryEntry, after: DirectoryEntry): Promise<Counts | null> {
  const counts = noCounts()
  let looked = 0
  for await (const { change } of diffTrees(reads, before, after)) {
    looked += 1
    if (looked > LIMITS.tree.restore_counted_max) return null
    counts[change] += 1
  }
  return counts
}

function notMoved(row: TreeRow | null, base_revision: number): TreeBusy | TreeMoved {
  if (row !== null && row.execution_id !== null) return new TreeBusy(row.execution_id)
  return new TreeMoved(row?.revision ?? base_revision)
}
