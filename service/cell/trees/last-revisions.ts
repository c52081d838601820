import { mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { syncFolder } from '../../lib/sync-folder.ts'
import type { Digest } from './blobs.ts'

/** The last revision of a tree that was published, and its root. */
export interface LastRevision {
  revision: number
  root: Digest
}

/**
 * The last revision of every tree of a store, kept next to its contents. A restored database does not know it (decision 297).
 * Each is an empty file `revisions/<workspace>/<revision>.<root>`: a name is there whole or not at all, and the highest number counts,
 * so two writers need no order.
 */
export interface LastRevisions {
  /** Durable when it answers. To be called when the row of the tree has moved, and before the caller is answered. */
  note(workspace_id: string, last: LastRevision): Promise<void>
  newest(workspace_id: string): Promise<LastRevision | null>
  /** The workspaces that have one in this store. */
  workspaces(): Promise<string[]>
  /** Of one that cannot be read: it is not followed again. */
  setAside(workspace_id: string, last: LastRevision): Promise<void>
  drop(workspace_id: string): Promise<void>
  folder(workspace_id: string): string
}

const NAME = /^(\d{1,16})\.([0-9a-f]{64})$/

export function openLastRevisions(store: string): LastRevisions {
  const all = path.join(store, 'revisions')
  const folderOf = (workspace_id: string) => path.join(all, workspace_id)
  const list = async (workspace_id: string): Promise<LastRevision[]> => {
    const found = (await namesOf(folderOf(workspace_id))).flatMap((name) => {
      const [, revision, root] = NAME.exec(name) ?? []
      return revision === undefined || root === undefined ? [] : [{ revision: Number(revision), root }]
    })
    return found.toSorted((one, other) => other.revision - one.revision)
  }
  return {
    folder: folderOf,
    async note(workspace_id, last) {
      const folder = folderOf(workspace_id)
      const made = await mkdir(folder, { recursive: true, mode: 0o700 })
      await open(path.join(folder, nameOf(last)), 'w', 0o600).then((file) => file.close())
      await syncFolder(folder)
      if (made !== undefined) for (const above of [all, store, path.dirname(store)]) await syncFolder(above)
      // An earlier one that comes back after a power cut harms nothing.
      for (const old of (await list(workspace_id)).slice(1)) await rm(path.join(folder, nameOf(old)), { force: true })
    },
    newest: async (workspace_id) => (await list(workspace_id))[0] ?? null,
    workspaces: () => namesOf(all),
    async setAside(workspace_id, last) {
      const file = path.join(folderOf(workspace_id), nameOf(last))
      await rename(file, `${file}.unreadable`)
      await syncFolder(folderOf(workspace_id))
    },
    drop: (workspace_id) => rm(folderOf(workspace_id), { recursive: true, force: true, maxRetries: 3 }),
  }
}

function nameOf({ revision, root }: LastRevision): string {
  return `${revision}.${root}`
}

async function namesOf(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return []
    throw error
  }
}
