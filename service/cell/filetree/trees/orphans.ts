import { rm } from 'node:fs/promises'
import path from 'node:path'
import type { Logger } from 'pino'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Db } from '../../../db/database.ts'
import type { Clock } from '../../../lib/clock.ts'
import { readStoreOwnerStates } from './collect-store.ts'
import { orphanForksOf } from './store-marks.ts'
import { timeOf, writeMark } from './mark-files.ts'
import type { Trees } from './trees.ts'

export interface OrphansContext {
  db: Db
  clock: Clock
  trees: Trees
  log: Logger
  quarantine_days: number
}

const DAY_MS = 24 * 3600 * 1000
const MARK = 'stranger'

/**
 * Removes trees without a row after the quarantine, since a restored database may lack later workspaces (decision 70). @returns the
 * number of removed folders
 */
export async function removeOrphanTrees(context: OrphansContext, signal: AbortSignal): Promise<number> {
  const { db, trees, log } = context
  // The folders are read before the rows: a folder is only made for an existing row.
  const ids = await trees.stored()
  const fates = await readStoreOwnerStates(db, ids)
  let removed = 0
  for (const workspace_id of ids) {
    if (signal.aborted || removed >= LIMITS.workspace.removals_per_sweep_max) break
    try {
      if (!(await isOver(context, workspace_id, fates.get(workspace_id)))) continue
      await trees.remove(workspace_id)
      removed += 1
      log.info({ workspace_id }, 'removed an orphan tree')
    } catch (error) {
      log.warn({ workspace_id, err: error }, 'a tree that no row names could not be removed')
    }
  }
  return removed
}

async function isOver(context: OrphansContext, store_id: string, fate: 'kept' | 'deleted' | undefined): Promise<boolean> {
  const { clock, trees, log, quarantine_days } = context
  const is_old = (since: number) => clock.now().getTime() - since >= quarantine_days * DAY_MS
  if (fate === 'deleted') return dropOrphanForks(trees, store_id, is_old)
  const mark = path.join(trees.folder(store_id), MARK)
  if (fate === 'kept') {
    await rm(mark, { force: true }) // another restore has brought back the row
    return false
  }
  const since = await timeOf(mark)
  if (since !== null) return is_old(since)
  await writeMark(mark, clock.now())
  log.warn({ workspace_id: store_id }, `no row names this tree; it is kept for ${quarantine_days} days`)
  return false
}

/** @returns false if the store still has an orphan fork */
async function dropOrphanForks(trees: Trees, store_id: string, is_old: (since: number) => boolean): Promise<boolean> {
  const lasts = trees.lastRevisions(store_id)
  const strangers = await orphanForksOf(lasts)
  for (const [workspace_id, since] of strangers) {
    if (!is_old(since)) return false
    await lasts.drop(workspace_id)
  }
  return true
}
