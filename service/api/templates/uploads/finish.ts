import type { Db } from '../../../db/database.ts'
import { digestOfParts, removePart } from './folder.ts'
import { completeUpload, restartUpload, type UploadRow } from './store.ts'

/**
 * May run repeatedly and concurrently.
 * @returns null if the upload is complete, else the digest that does not match.
 */
export async function finishUpload(db: Db, folder: string, { id, sha256, parts }: UploadRow, now: Date): Promise<string | null> {
  const digest = await digestOfParts(folder, id, parts)
  const is_whole = digest === sha256
  await db.transaction().execute((tx) => (is_whole ? completeUpload(tx, id, now) : restartUpload(tx, id, parts)))
  if (is_whole) return null
  for (const part of parts) await removePart(folder, id, part)
  return digest
}
