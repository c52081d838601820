import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'

/** Tells the asking api that all changes committed before its question are applied here. */
export async function tellConfirmed(db: Db, payload: string): Promise<void> {
  await sql`select pg_notify('berth_revoked', ${payload})`.execute(db)
}
