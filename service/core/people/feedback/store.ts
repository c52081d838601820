import { sql, type Insertable, type Selectable } from 'kysely'
import type { Db } from '../../../db/database.ts'
import { deleteOld } from '../../../db/delete-old.ts'
import type { Database } from '../../../db/schema.ts'
import type { ChangeTx } from '../../changes/mutate.ts'

export type FeedbackRow = Selectable<Database['feedback']>

export async function insertFeedback(tx: ChangeTx, row: Insertable<Database['feedback']>): Promise<void> {
  await tx.insertInto('feedback').values(row).execute()
}

/** Newest first, without duplicates. */
export function listFeedback(db: Db, since: Date, limit: number): Promise<FeedbackRow[]> {
  return db
    .selectFrom('feedback')
    .selectAll()
    .where('duplicate_of', 'is', null)
    .where('received_at', '>=', since)
    .orderBy('received_at', 'desc')
    .limit(limit)
    .execute()
}

export async function forgetFeedback(db: Db, received_before: Date): Promise<void> {
  await deleteOld(db, 'feedback', sql`received_at < ${received_before}`, 'id')
}
