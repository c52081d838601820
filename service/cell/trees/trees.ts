import { readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { LIMITS } from '../../../contract/limits.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { type BlobFiles, openBlobFiles } from './blob-files.ts'
import type { Blobs, Digest } from './blobs.ts'
import type { DirectoryEntry } from './entries.ts'
import { checkChanges } from './names.ts'
import { dropTree, type KeptAnswer, moveTree, readEarlierRoot, readTree } from './store.ts'
import { editTree, emptyRoot, readRoot, type TreeChange } from './tree.ts'

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** One revision of a workspace's tree. */
export interface Revision {
  revision: number
  root: DirectoryEntry
  /** What all files of the tree may have. */
  bytes_max: number
}

/** The tree has moved on: nothing was published. */
export class TreeMoved extends Error {
  readonly current_revision: number

  constructor(current_revision: number) {
    super(`The tree is at revision ${current_revision}`)
    this.current_revision = current_revision
  }
}

/** The tree would have more than it may have: nothing was published. */
export class TreeFull extends Error {
  readonly what: 'bytes' | 'entries'

  constructor(what: 'bytes' | 'entries') {
    super(`The tree would have too many ${what}`)
    this.what = what
  }
}

/** Somebody who prepares a revision. Until it is disposed of, nothing that was put through it is collected. */
export interface Publication extends Disposable {
  /** Puts contents ahead of the changes that name them. */
  put(contents: readonly Buffer[]): Promise<Digest[]>
  /**
   * Makes the next revision of what the base is with these changes, whatever they do: it is there whole and durable, or not at all.
   * @throws TreeMoved, TreeFull, TreeMismatch, and a Failure for names that no tree has.
   */
  publish(base_revision: number, changes: readonly TreeChange[], kept?: KeptAnswer): Promise<Revision>
}

/** The trees of the file-first workspaces of this cell. */
export interface Trees {
  /** As it is by now; null: no file-first workspace of this id is left. */
  current(workspace_id: string): Promise<Revision | null>
  /** The number alone. */
  revision(workspace_id: string): Promise<number | null>
  /** An earlier one that is still kept, or the current one; null: it is not kept, or was never there. */
  at(workspace_id: string, revision: number): Promise<Revision | null>
  blobs(workspace_id: string): Pick<Blobs, 'get'>
  begin(workspace_id: string): Publication
  /** One piece of work after another for a workspace, in this process. Others are found out about when they publish. */
  inTurn<T>(workspace_id: string, work: () => Promise<T>): Promise<T>
  /** All that is stored of it. */
  remove(workspace_id: string): Promise<void>
  /** The ids of all workspaces of which something is stored. */
  stored(): Promise<string[]>
  /** For the collector: the files, and since when the oldest publication of the workspace has been under way. */
  files(workspace_id: string): BlobFiles
  /** Where these are. */
  folder(workspace_id: string): string
  busySince(workspace_id: string): Date | null
}

export function createTrees({ db, clock, folder }: { db: Db; clock: Clock; folder: string }): Trees {
  const publications = new Map<string, Set<Date>>()
  const turns = new Map<string, Promise<unknown>>()
  const folderOf = (workspace_id: string) => path.join(folder, workspace_id)
  const files = (workspace_id: string) => openBlobFiles(folderOf(workspace_id), clock)

  const current: Trees['current'] = async (workspace_id) => {
    const row = await readTree(db, workspace_id)
    if (row === null) return null
    const { revision, bytes_max } = row
    return { revision, root: await rootOf(workspace_id, row.root, row.created_at), bytes_max }
  }
  const rootOf = async (workspace_id: string, root: Digest | null, created_at: Date) =>
    root === null ? emptyRoot(created_at) : readRoot({ blobs: files(workspace_id) }, root)

  const publish = async (
    workspace_id: string,
    base_revision: number,
    changes: readonly TreeChange[],
    kept: KeptAnswer | null,
  ): Promise<Revision> => {
    checkChanges(changes)
    const base = await current(workspace_id)
    if (base === null) throw new TreeMoved(base_revision)
    if (base.revision !== base_revision) throw new TreeMoved(base.revision)
    const blobs = files(workspace_id)
    const now = clock.now()
    const edited = await editTree({ blobs }, base.root, changes, now.getTime())
    const { entries = 0, bytes = 0 } = edited.root.page ?? {}
    // Whoever has too much already may still take away.
    if (bytes > base.bytes_max && bytes > (base.root.page?.bytes ?? 0)) throw new TreeFull('bytes')
    if (entries > LIMITS.tree.entries_max && entries > (base.root.page?.entries ?? 0)) throw new TreeFull('entries')
    await blobs.put(edited.blobs)
    await failpoint('tree.T1')
    const moved = await moveTree(db, { workspace_id, base_revision, root: edited.digest, entries, bytes, now, kept })
    await failpoint('tree.T2')
    if (!moved) throw new TreeMoved((await readTree(db, workspace_id))?.revision ?? base_revision)
    return { revision: base_revision + 1, root: edited.root, bytes_max: base.bytes_max }
  }
  return {
    current,
    revision: async (workspace_id) => (await readTree(db, workspace_id))?.revision ?? null,
    async at(workspace_id, revision) {
      const row = await readTree(db, workspace_id)
      if (row === null || revision > row.revision) return null
      const root = revision === row.revision ? row.root : await readEarlierRoot(db, workspace_id, revision)
      if (root === undefined) return null
      return { revision, root: await rootOf(workspace_id, root, row.created_at), bytes_max: row.bytes_max }
    },
    blobs: files,
    files,
    folder: folderOf,
    begin(workspace_id) {
      const since = clock.now()
      const busy = publications.get(workspace_id) ?? new Set()
      publications.set(workspace_id, busy.add(since))
      return {
        put: (contents) => files(workspace_id).put(contents),
        publish: (base_revision, changes, kept) => publish(workspace_id, base_revision, changes, kept ?? null),
        [Symbol.dispose]() {
          busy.delete(since)
          if (busy.size === 0) publications.delete(workspace_id)
        },
      }
    },
    busySince(workspace_id) {
      const [oldest] = [...(publications.get(workspace_id) ?? [])].sort((one, other) => one.getTime() - other.getTime())
      return oldest ?? null
    },
    async inTurn(workspace_id, work) {
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
        if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [] // nobody has put anything yet
        throw error
      })
      return names.filter((name) => UUID.test(name))
    },
    async remove(workspace_id) {
      await this.inTurn(workspace_id, async () => {
        await dropTree(db, workspace_id)
        await rm(folderOf(workspace_id), { recursive: true, force: true, maxRetries: 3 })
      })
    },
  }
}
