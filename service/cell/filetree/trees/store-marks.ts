import { rm } from 'node:fs/promises'
import path from 'node:path'
import type { LastRevisions } from './last-revisions.ts'
import { timeOf, writeMark } from './mark-files.ts'

const DAY_MS = 24 * 3600 * 1000
const BEHIND = 'behind'
const STRANGER = 'stranger'

/**
 * Marks a store that has newer contents than the database. They are retained for a time, because another restore may bring rows that
 * reference them.
 */
export async function markStoreAhead(store: string, now: Date): Promise<void> {
  await writeMark(path.join(store, BEHIND), now)
}

/** @returns the time in milliseconds up to which blobs last used are retained, or null if the store has no mark */
export async function storeAheadSince(store: string, now: Date, quarantine_days: number): Promise<number | null> {
  const mark = path.join(store, BEHIND)
  const since = await timeOf(mark)
  if (since === null || now.getTime() - since < quarantine_days * DAY_MS) return since
  await rm(mark, { force: true })
  return null
}

/** The workspaces without a row, each with the time of its mark in milliseconds. */
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
