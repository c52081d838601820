import type { Logger } from 'pino'
import { LIMITS } from '../../../contract/limits.ts'
import type { Db } from '../../db/database.ts'
import type { Clock } from '../../lib/clock.ts'
import { failpoint } from '../../lib/failpoints.ts'
import { oneAtATime, tickEvery } from '../machines/ticking.ts'
import { forgetEarlier, noteCollected, readCollectable, readRoots, readSharers } from './collect-store.ts'
import { removeStrangers, type StrangersContext } from './strangers.ts'
import { createMarks, markTree } from './tree.ts'
import type { Trees } from './trees.ts'

export interface CollectContext {
  cell_id: string
  db: Db
  clock: Clock
  trees: Trees
  log: Logger
}

const LOOK_MS = 60_000
const TREES_A_LOOK = 20

/** Removes what no revision names any more, tree by tree, and trees that no row names. */
export function startCollecting(context: CollectContext & StrangersContext, signal: AbortSignal): void {
  const failed = (error: unknown) => context.log.warn({ err: error }, 'trees could not be collected')
  tickEvery(
    LOOK_MS,
    oneAtATime(async () => {
      await removeStrangers(context, signal)
      await collectTrees(context, signal)
    }),
    failed,
    signal,
  )
}

export async function collectTrees(context: CollectContext, signal: AbortSignal): Promise<void> {
  const { db, cell_id, clock, trees, log } = context
  const changed = await readCollectable(db, cell_id, clock.now(), TREES_A_LOOK, trees.kept)
  for (const store_id of new Set([...changed, ...trees.leftovers.due()])) {
    if (signal.aborted) return
    try {
      const removed = await collectTree(context, store_id)
      if (removed > 0) log.info({ workspace_id: store_id, removed }, 'removed contents that no revision names')
    } catch (error) {
      // A damaged tree is its workspace's trouble alone. Nothing of it goes: what it names is not known.
      log.error({ err: error, workspace_id: store_id }, 'a tree could not be collected')
      trees.leftovers.collected(store_id, clock.now())
      await noteCollected(db, store_id, clock.now())
    }
  }
}

/**
 * Deletes the blobs of a store that are named by no root and that no writer has used for the grace time, nor since the oldest publication
 * that is under way began. A fork that is made meanwhile has a root that was kept when the roots were read, or is of a later revision. A revision that is published after the roots are read consists of blobs that its publication has used, and of what
 * its base has, which is either marked or was published after them, too.
 * @returns how many blobs went.
 */
export async function collectTree({ db, clock, trees }: CollectContext, store_id: string): Promise<number> {
  const now = clock.now()
  const grace_ms = now.getTime() - LIMITS.tree.blob_grace_seconds * 1000
  // Before the roots are read: what is used from here on is younger than this.
  const since = (await readSharers(db, store_id)).map((workspace_id) => trees.busySince(workspace_id)?.getTime() ?? Infinity)
  const before = new Date(Math.min(grace_ms, ...since))
  await forgetEarlier(db, store_id, now, trees.kept)
  const files = trees.store(store_id)
  await files.dropLeftovers(before)
  const marks = createMarks()
  for (const root of await readRoots(db, store_id)) await markTree({ blobs: files }, root, marks)
  await failpoint('tree.T3')
  let removed = 0
  for await (const digest of files.unusedSince(before)) {
    if (!marks.has(digest) && (await files.deleteUnused(digest, before))) removed += 1
  }
  trees.leftovers.collected(store_id, before)
  await noteCollected(db, store_id, now)
  return removed
}
