import { LIMITS } from '../../../../contract/limits.ts'
import type { Db } from '../../../db/database.ts'
import { finishUpload } from './finish.ts'
import { oldFolders, removeUpload } from './folder.ts'
import { dropOldUploads, knownUploads, readUnfinished } from './store.ts'

const ROWS_MAX = 100
const FINISHED_MAX = 4 // finishing reads the whole upload, up to 5 GiB
const HOUR_MS = 3600_000

/** Processes that died leave orphan folders and unfinished uploads. @returns the number of uploads deleted. */
export async function sweepUploads(db: Db, folder: string | null, now: Date): Promise<number> {
  if (folder === null) return 0
  const { unfinished_hours, unused_hours } = LIMITS.template_upload
  const before = { unfinished: hoursAgo(now, unfinished_hours), unused: hoursAgo(now, unused_hours) }
  const finish_before = new Date(now.getTime() - LIMITS.template_upload.finish_minutes * 60_000)
  for (const upload of await readUnfinished(db, finish_before, FINISHED_MAX)) await finishUpload(db, folder, upload, now)
  const dropped = await dropOldUploads(db, before, ROWS_MAX)
  for (const id of dropped) await removeUpload(folder, id)
  const folders = await oldFolders(folder, now)
  const known = await knownUploads(db, folders)
  const strange = folders.filter((id) => !known.has(id))
  for (const id of strange) await removeUpload(folder, id)
  return dropped.length + strange.length
}

function hoursAgo(now: Date, hours: number): Date {
  return new Date(now.getTime() - hours * HOUR_MS)
}
