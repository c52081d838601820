import type { Db } from '../db/database.ts'

export interface Standing {
  refuses_starts: string | null
  grace_until: Date | null
  allowance_exhausted: string | null
  /** JSON. */
  allowance: string | null
}

export async function updateStanding(db: Db, organization_id: string, change: Partial<Standing>): Promise<void> {
  await db.updateTable('organizations').set(change).where('id', '=', organization_id).execute()
}
