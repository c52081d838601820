import { mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { syncFolder } from '../../../lib/sync-folder.ts'
import type { Digest } from './blobs.ts'

export interface LastRevision {
  revision: number
  root: Digest
}

/**
 * Records the last revision of each tree, because a restored database has an older one (decision 297). Each record is an empty file
 * `revisions/<workspace>/<revision>.<root>`. Its creation is atomic and the highest number is valid, so writers need no lock.
 */
export interface LastRevisions {
  /** Durable once the promise resolves. Call this after the row has changed, and before the caller receives its response. */
  note(workspace_id: string, last: LastRevision): Promise<void>
  newest(workspace_id: string): Promise<LastRevision | null>
  workspaces(): Promise<string[]>
  /** Renames the record, so that no later restore adopts an unreadable revision. */
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
      // These removals are not synced. An old record that reappears after a power cut is ignored, because the highest number is valid.
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
