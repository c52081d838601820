import type { Logger } from 'pino'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Db } from '../../../db/database.ts'
import type { Clock } from '../../../lib/clock.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { whileClockStable } from '../../../lib/stable-clock.ts'
import { oneAtATime, tickEvery } from '../../../lib/poll.ts'
import { forgetEarlier, noteCollected, readCollectable, readLast, readRoots, readWorkspacesOfStore } from './collect-store.ts'
import { clearOrphanMark, storeAheadSince, markOrphanFork, orphanForksOf } from './store-marks.ts'
import { removeOrphanTrees, type OrphansContext } from './orphans.ts'
import type { Digest } from './blobs.ts'
import { createMarks, markTree } from './tree.ts'
import type { Trees } from './trees.ts'

export interface CollectContext {
  cell_id: string
  db: Db
  clock: Clock
  trees: Trees
  log: Logger
  /** Time before contents without a row in a restored database may be removed. */
  quarantine_days: number
}

const DAY_MS = 24 * 3600 * 1000
const LOOK_MS = 60_000
const TREES_A_LOOK = 20

export function startTreeCollector(context: CollectContext & OrphansContext, signal: AbortSignal): void {
  const failed = (error: unknown) => context.log.warn({ err: error }, 'trees could not be collected')
  const look = oneAtATime(async () => {
    await removeOrphanTrees(context, signal)
    await collectTrees(context, signal)
  })
  tickEvery(LOOK_MS, whileClockStable(context.clock, context.log, 'collection of trees', look), failed, signal)
}

export async function collectTrees(context: CollectContext, signal: AbortSignal): Promise<void> {
  const { db, cell_id, clock, trees, log } = context
  const changed = await readCollectable(db, cell_id, clock.now(), TREES_A_LOOK, trees.kept)
  for (const store_id of new Set([...changed, ...trees.leftovers.due()])) {
    if (signal.aborted) return
    try {
      const removed = await collectTree(context, store_id)
      if (removed > 0) log.info({ workspace_id: store_id, removed }, 'removed unreferenced blobs')
    } catch (error) {
      // A damaged tree must not stop the collection of others. Its blobs are not removed, because its references are unknown.
      log.error({ err: error, workspace_id: store_id }, 'a tree could not be collected')
      trees.leftovers.collected(store_id, clock.now())
      await noteCollected(db, store_id, clock.now())
    }
  }
}

/**
 * Removes blobs that no root references, unless a writer used them within the grace time or since the oldest running publication began. A
 * fork made meanwhile has one of the roots that were read, or a later root. A later revision consists of blobs that its publication used,
 * and of blobs of its base. The base is marked, or was itself published later.
 */
export async function collectTree(context: CollectContext, store_id: string): Promise<number> {
  const { db, clock, trees, quarantine_days } = context
  const now = clock.now()
  const grace_ms = now.getTime() - LIMITS.tree.blob_grace_seconds * 1000
  // This time is read before the roots: a publication that begins afterwards only uses newer blobs.
  const since = (await readWorkspacesOfStore(db, store_id)).map((workspace_id) => trees.busySince(workspace_id)?.getTime() ?? Infinity)
  const before = new Date(Math.min(grace_ms, ...since))
  await forgetEarlier(db, store_id, now, trees.kept)
  const files = trees.store(store_id)
  await files.dropLeftovers(before)
  const marks = createMarks()
  for (const root of await readRoots(db, store_id)) await markTree({ blobs: files }, root, marks)
  for (const root of await recordedRoots(context, store_id, now)) await markTree({ blobs: files }, root, marks)
  await failpoint('tree.T3')
  const held = (await storeAheadSince(trees.folder(store_id), now, quarantine_days)) ?? undefined
  let removed = 0
  for await (const digest of files.unusedSince(before, held)) {
    if (!marks.has(digest) && (await files.deleteUnused(digest, before))) removed += 1
  }
  trees.leftovers.collected(store_id, before)
  await noteCollected(db, store_id, now)
  return removed
}

/** Roots that the store recorded and the database lacks: a restored database may be older than the store. */
async function recordedRoots({ db, trees, quarantine_days }: CollectContext, store_id: string, now: Date): Promise<Digest[]> {
  const lasts = trees.lastRevisions(store_id)
  const noted = await lasts.workspaces() // read before the rows, because a record is only made for an existing row
  const rows = await readLast(db, store_id)
  for (const { workspace_id, revision, root } of rows) {
    const last = await lasts.newest(workspace_id)
    if (root !== null && (last === null || last.revision < revision)) await lasts.note(workspace_id, { revision, root })
  }
  const known = new Set(rows.map(({ workspace_id }) => workspace_id))
  const strangers = await orphanForksOf(lasts)
  const roots: Digest[] = []
  for (const workspace_id of noted) {
    const since = strangers.get(workspace_id)
    if (known.has(workspace_id)) await clearOrphanMark(lasts, workspace_id)
    else if (since === undefined) await markOrphanFork(lasts, workspace_id, now)
    else if (now.getTime() - since >= quarantine_days * DAY_MS) await lasts.drop(workspace_id)
    const last = await lasts.newest(workspace_id)
    if (last !== null) roots.push(last.root)
  }
  return roots
}
