import { LIMITS } from '../../../../contract/limits.ts'
import type { MadeBy } from '../../../db/column-types.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import type { Digest } from './blobs.ts'
import { withRevisionsLocked } from './collect-store.ts'
import { diffTrees, noCounts, type Counts } from './diff.ts'
import type { DirectoryEntry } from './entries.ts'
import { TreeFull } from './full.ts'
import { type Growth, type Leftovers, sizeOnDisk } from './growth.ts'
import { checkChanges } from './names.ts'
import type { PageReads } from './pages.ts'
import { currentRevision, type Revision, revisionAt } from './revisions.ts'
import { type KeptAnswer, moveTree, readEarlierRoot, readTree, type TreeMove, type TreeRow } from './store.ts'
import { blobsOf, followStore, lastRevisionsOf, noteRevision, storeOf, type Stores } from './blob-stores.ts'
import { type EditedTree, editTree, type TreeChange } from './tree.ts'

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

/** The revision to restore has been removed; nothing was published. */
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

/** Preparation of a revision. The collector spares the contents of a publication until it is disposed. */
export interface Publication extends Disposable {
  put(contents: readonly Buffer[]): Promise<Digest[]>
  /**
   * Applies changes to the base and makes the next revision, atomically and durably. `options.contents` are stored only after the size
   * limits were checked.
   * @throws TreeMoved, TreeBusy, TreeFull, TreeMismatch, and a Failure for invalid names
   */
  publish(base_revision: number, changes: readonly TreeChange[], options?: PublishOptions): Promise<Revision>
  /**
   * Copies an earlier revision that is still stored into a new revision on the base.
   * @throws TreeMoved, TreeBusy, TreeFull, RevisionGone
   */
  restore(base_revision: number, revision: number, made_by?: MadeBy): Promise<Revision>
}

export interface Publisher {
  stores: Stores
  growth: Growth
  leftovers: Leftovers
  /** The start times of the running publications of each workspace. */
  under_way: Map<string, Set<Date>>
}

export function beginPublication(publisher: Publisher, workspace_id: string): Publication {
  const { stores, leftovers, under_way } = publisher
  const since = stores.clock.now()
  const busy = under_way.get(workspace_id) ?? new Set()
  under_way.set(workspace_id, busy.add(since))
  let disk_bytes: Promise<number> | null = null
  let leaves = false
  const published = (made: Revision): Revision => {
    leaves = false
    return made
  }
  return {
    async put(contents) {
      disk_bytes ??= readTree(stores.db, workspace_id).then((row) => row?.bytes_max ?? 0)
      const max = await disk_bytes
      leaves = true
      return putCounted(publisher, workspace_id, max, contents)
    },
    publish: (base_revision, changes, options = {}) =>
      publishChanges(publisher, workspace_id, base_revision, changes, options).then(published),
    restore: (base_revision, revision, made_by) =>
      publishEarlier(publisher, workspace_id, base_revision, revision, made_by ?? null).then(published),
    [Symbol.dispose]() {
      if (leaves) leftovers.note(stores.known.get(workspace_id) ?? workspace_id)
      busy.delete(since)
      if (busy.size === 0) under_way.delete(workspace_id)
    },
  }
}

/** @returns the start time of the oldest running publication, or null if none runs */
export function busySince({ under_way }: Publisher, workspace_id: string): Date | null {
  const [oldest] = [...(under_way.get(workspace_id) ?? [])].sort((one, other) => one.getTime() - other.getTime())
  return oldest ?? null
}

async function publishChanges(
  publisher: Publisher,
  workspace_id: string,
  base_revision: number,
  changes: readonly TreeChange[],
  { contents = [], kept, made_by }: PublishOptions,
): Promise<Revision> {
  checkChanges(changes)
  const { stores } = publisher
  const base = await baseOf(stores, workspace_id, base_revision)
  const now = stores.clock.now()
  const edited = await editTree({ blobs: blobsOf(stores, workspace_id) }, base.root, changes, now.getTime())
  return commit(publisher, workspace_id, base, edited, {
    now,
    restores: null,
    contents,
    of: { kept: kept ?? null, made_by: made_by ?? null, changes: edited.counts },
  })
}

async function publishEarlier(
  publisher: Publisher,
  workspace_id: string,
  base_revision: number,
  revision: number,
  made_by: MadeBy | null,
): Promise<Revision> {
  const { stores } = publisher
  const base = await baseOf(stores, workspace_id, base_revision)
  const earlier = await revisionAt(stores, workspace_id, revision)
  if (earlier === null) throw new RevisionGone(revision)
  const blobs = blobsOf(stores, workspace_id)
  const now = stores.clock.now()
  const edited = await editTree({ blobs }, earlier.root, [], now.getTime()) // stores its root alone, unchanged
  const changes = await countDifferences({ blobs }, base.root, earlier.root)
  return commit(publisher, workspace_id, base, edited, { now, restores: revision, contents: [], of: { kept: null, made_by, changes } })
}

async function baseOf(stores: Stores, workspace_id: string, base_revision: number): Promise<Revision> {
  const base = await currentRevision(stores, workspace_id)
  if (base === null) throw new TreeMoved(base_revision)
  if (base.execution_id !== null) throw new TreeBusy(base.execution_id)
  if (base.revision !== base_revision) throw new TreeMoved(base.revision)
  // The database may have been restored since this process started. The row then follows the record, so that no acknowledged number is
  // reused.
  const last = await lastRevisionsOf(stores, await storeOf(stores, workspace_id)).newest(workspace_id)
  if (last !== null && last.revision > base_revision && (await followStore(stores, workspace_id)) === 'followed') {
    throw new TreeMoved(last.revision)
  }
  return base
}

interface CommitDetails {
  now: Date
  /** The revision to make current again; null: the commit applies changes. */
  restores: number | null
  contents: readonly Buffer[]
  of: Pick<TreeMove, 'kept' | 'made_by' | 'changes'>
}

async function commit(
  publisher: Publisher,
  workspace_id: string,
  base: Revision,
  edited: EditedTree,
  said: CommitDetails,
): Promise<Revision> {
  const { stores } = publisher
  const { entries, bytes } = sizeUnder(base, edited.root)
  await failpoint('tree.T0')
  // A change that only shrinks the tree is stored even on a full disk. A smaller content that replaces a larger one is not: both are
  // stored for an hour.
  const { contents } = said
  if (contents.length === 0 && isSmaller(base, edited.root)) await blobsOf(stores, workspace_id).put(edited.blobs)
  else await putCounted(publisher, workspace_id, base.bytes_max, [...contents, ...edited.blobs])
  await failpoint('tree.T1')
  const { revision: base_revision, bytes_max } = base
  const move = { workspace_id, base_revision, root: edited.digest, entries, bytes, now: said.now, ...said.of }
  const moved = said.restores === null ? await moveTree(stores.db, move) : await moveToKept(stores, workspace_id, said.restores, move)
  await failpoint('tree.T2')
  if (!moved) throw notMoved(await readTree(stores.db, workspace_id), base_revision)
  await noteRevision(stores, workspace_id, { revision: base_revision + 1, root: edited.digest })
  return { revision: base_revision + 1, root: edited.root, bytes_max, execution_id: null }
}

async function putCounted(
  { stores, growth }: Publisher,
  workspace_id: string,
  disk_bytes: number,
  contents: readonly Buffer[],
): Promise<Digest[]> {
  using taken = await growth.take(workspace_id, sizeOnDisk(contents), disk_bytes)
  let stored_bytes = 0
  const digests = await blobsOf(stores, workspace_id).put(contents, (content) => void (stored_bytes += sizeOnDisk([content])))
  taken.stored(stored_bytes)
  return digests
}

async function moveToKept(stores: Stores, workspace_id: string, revision: number, move: TreeMove): Promise<boolean> {
  return withRevisionsLocked(stores.db, await storeOf(stores, workspace_id), async (tx) => {
    const is_kept = revision === move.base_revision || (await readEarlierRoot(tx, workspace_id, revision)) !== undefined
    if (!is_kept) throw new RevisionGone(revision)
    return moveTree(tx, move)
  })
}

/** A tree that is above a limit may still shrink. */
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

/** @returns null if there are too many differences to count while the caller waits */
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
