import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'

export async function notifyConfirmed(db: Db, payload: string): Promise<void> {
  await sql`select pg_notify('berth_revoked', ${payload})`.execute(db)
}
