import { sql } from 'kysely'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Db } from '../../../db/database.ts'
import type { Reader, Tx } from '../../../db/reader.ts'

export interface UploadPart {
  name: string
  bytes: number
}

export interface UploadRow {
  id: string
  organization_id: string
  project_id: string
  size_bytes: number
  sha256: string
  parts: UploadPart[]
  received_bytes: number
  complete: boolean
  created_at: Date
  used_at: Date
}

const COLUMNS = `id, organization_id, project_id, size_bytes::float8 as size_bytes, sha256, parts, received_bytes::float8 as received_bytes,
  complete, created_at, used_at`

export async function readUpload(reads: Reader, id: string): Promise<UploadRow | null> {
  const [row] = await reads.rows<UploadRow>('template_uploads.one', `select ${COLUMNS} from template_uploads where id = $1`, [id])
  return row ?? null
}

/** Serializes creations, so that the count is exact. */
export async function countUploads(tx: ChangeTx, organization_id: string): Promise<{ count: number; bytes: number }> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`template_uploads:${organization_id}`}, 0))`.execute(tx)
  const { count, bytes } = await tx
    .selectFrom('template_uploads')
    .select((e) => [e.fn.countAll<string>().as('count'), e.fn.sum<string | null>('size_bytes').as('bytes')])
    .where('organization_id', '=', organization_id)
    .executeTakeFirstOrThrow()
  return { count: Number(count), bytes: Number(bytes ?? 0) }
}

export async function insertUpload(
  tx: ChangeTx,
  upload: Omit<UploadRow, 'parts' | 'received_bytes' | 'complete' | 'used_at'>,
): Promise<void> {
  await tx
    .insertInto('template_uploads')
    .values({ ...upload, used_at: upload.created_at })
    .execute()
}

/** @returns false if the upload no longer ends at `offset`. */
export async function addPart(tx: ChangeTx, id: string, offset: number, part: UploadPart, now: Date): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update template_uploads set parts = parts || ${JSON.stringify([part])}::jsonb, received_bytes = received_bytes + ${part.bytes}, used_at = ${now}
    where id = ${id} and received_bytes = ${offset} and not complete`.execute(tx)
  return numAffectedRows === 1n
}

export async function completeUpload(tx: Tx, id: string, now: Date): Promise<void> {
  await sql`update template_uploads set complete = true, used_at = ${now} where id = ${id} and received_bytes = size_bytes`.execute(tx)
}

/** Keeps parts that were received after a concurrent restart. */
export async function restartUpload(tx: Tx, id: string, parts: readonly UploadPart[]): Promise<void> {
  await sql`
    update template_uploads set parts = '[]', received_bytes = 0
    where id = ${id} and not complete and parts = ${JSON.stringify(parts)}::jsonb`.execute(tx)
}

/** Complete uploads that were not finished: a process died or a statement failed. */
export async function readUnfinished(reads: Db, before: Date, most: number): Promise<UploadRow[]> {
  const { rows } = await sql<UploadRow>`
    select ${sql.raw(COLUMNS)} from template_uploads where received_bytes = size_bytes and not complete and used_at < ${before}
    order by used_at limit ${most}`.execute(reads)
  return rows
}

/** Prolongs the upload's life. null: no such complete upload. */
export async function useUpload(
  tx: ChangeTx,
  id: string,
  { project_id }: { project_id: string },
  now: Date,
): Promise<Pick<UploadRow, 'id' | 'sha256' | 'parts'> | null> {
  const { rows } = await sql<Pick<UploadRow, 'id' | 'sha256' | 'parts'>>`
    update template_uploads set used_at = greatest(used_at, ${now}) where id = ${id} and project_id = ${project_id} and complete
    returning id, sha256, parts`.execute(tx)
  return rows[0] ?? null
}

export async function deleteUpload(tx: ChangeTx, id: string): Promise<void> {
  await tx.deleteFrom('template_uploads').where('id', '=', id).execute()
}

export async function dropOldUploads(db: Db, before: { unfinished: Date; unused: Date }, most: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    delete from template_uploads where id in (
      select id from template_uploads where used_at < ${before.unfinished} and (not complete or used_at < ${before.unused})
      order by used_at limit ${most} for update skip locked)
    returning id`.execute(db)
  return rows.map(({ id }) => id)
}

export async function knownUploads(db: Db, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const rows = await db
    .selectFrom('template_uploads')
    .select('id')
    .where('id', 'in', [...ids])
    .execute()
  return new Set(rows.map(({ id }) => id))
}
