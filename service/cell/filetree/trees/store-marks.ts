import { rm } from 'node:fs/promises'
import path from 'node:path'
import type { LastRevisions } from './last-revisions.ts'
import { timeOf, writeMark } from './mark-files.ts'

const DAY_MS = 24 * 3600 * 1000
const BEHIND = 'behind'
const STRANGER = 'stranger'

/** Another restore may know the contents. */
export async function markStoreAhead(store: string, now: Date): Promise<void> {
  await writeMark(path.join(store, BEHIND), now)
}

/** @returns milliseconds: blobs last used until then are kept; null: no mark */
export async function storeAheadSince(store: string, now: Date, quarantine_days: number): Promise<number | null> {
  const mark = path.join(store, BEHIND)
  const since = await timeOf(mark)
  if (since === null || now.getTime() - since < quarantine_days * DAY_MS) return since
  await rm(mark, { force: true })
  return null
}

/** Workspaces without a row, with the time since when (milliseconds). */
export async function orphanForksOf(lasts: LastRevisions): Promise<Map<string, number>> {
  const strangers = new Map<string, number>()
  for (const workspace_id of await lasts.workspaces()) {
    const since = await timeOf(orphanMarkPath(lasts, workspace_id))
    if (since !== null) strangers.set(workspace_id, since)
  }
  return strangers
}

export async function markOrphanFork(lasts: LastRevisions, workspace_id: string, now: Date): Promise<void> {
  await writeMark(orphanMarkPath(lasts, workspace_id), now)
}

export async function clearOrphanMark(lasts: LastRevisions, workspace_id: string): Promise<void> {
  await rm(orphanMarkPath(lasts, workspace_id), { force: true })
}

function orphanMarkPath(lasts: LastRevisions, workspace_id: string): string {
  return path.join(lasts.folder(workspace_id), STRANGER)
}
