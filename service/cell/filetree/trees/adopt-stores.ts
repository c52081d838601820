import type { Logger } from 'pino'
import type { Db } from '../../../db/database.ts'
import type { Clock } from '../../../lib/clock.ts'
import { mapInBatches } from './blob-files.ts'
import { readKnown } from './adopt-rows-store.ts'
import { clearOrphanMark, markStoreAhead, markOrphanFork, orphanForksOf } from './store-marks.ts'
import type { LastRevision } from './last-revisions.ts'
import type { Trees } from './trees.ts'

export interface FollowContext {
  db: Db
  clock: Clock
  trees: Trees
  log: Logger
}

interface Noted {
  store_id: string
  workspace_id: string
  last: LastRevision
}

const ROWS_A_READ = 1000

/**
 * After a restore of the database, each tree continues at its last acknowledged revision (decisions 70 and 297). This must finish before
 * the rest of the cell acts.
 */
export async function adoptStoreRevisions(context: FollowContext, signal: AbortSignal): Promise<void> {
  const noted = await readNoted(context.trees)
  for (let at = 0; at < noted.length; at += ROWS_A_READ) {
    signal.throwIfAborted()
    const some = noted.slice(at, at + ROWS_A_READ)
    // The rows are read after the records. A record is only made for an existing row, so only a restored database lacks the row.
    const ids = some.map(({ workspace_id }) => workspace_id)
    const known = await readKnown(context.db, ids)
    for (const one of some) await compare(context, one, known.get(one.workspace_id))
  }
}

async function readNoted(trees: Trees): Promise<Noted[]> {
  const of_stores = await mapInBatches(await trees.stored(), async (store_id) => {
    const noted: Noted[] = []
    const lasts = trees.lastRevisions(store_id)
    for (const workspace_id of await lasts.workspaces()) {
      const last = await lasts.newest(workspace_id)
      if (last !== null) noted.push({ store_id, workspace_id, last })
    }
    return noted
  })
  return of_stores.flat()
}

async function compare({ clock, trees, log }: FollowContext, { store_id, workspace_id, last }: Noted, row: number | 'deleted' | undefined) {
  const lasts = trees.lastRevisions(store_id)
  if (row === 'deleted') return lasts.drop(workspace_id) // the workspace was deleted while its store still had other trees
  const is_stranger = (await orphanForksOf(lasts)).has(workspace_id)
  if (row === undefined) {
    // The database has a row of the store, but none of this fork. The fork is marked as an orphan.
    if (is_stranger) return
    await markStoreAhead(trees.folder(store_id), clock.now())
    return markOrphanFork(lasts, workspace_id, clock.now())
  }
  if (is_stranger) await clearOrphanMark(lasts, workspace_id) // another restore has brought its row back
  if (row >= last.revision) return
  const became = await trees.follow(workspace_id)
  const said = { workspace_id, revision: row, last_revision: last.revision }
  if (became === 'followed') log.warn(said, 'the database is older than this tree, which goes on at its last revision')
  if (became === 'unreadable')
    log.error(said, 'the database is older than this tree, whose last revision cannot be read: its contents are kept for the quarantine')
}
