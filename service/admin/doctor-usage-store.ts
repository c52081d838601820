import { sql } from 'kysely'
import type { Db } from '../db/database.ts'

export interface CountersRow {
  workspace_id: string
  fence: number
  cpu_usec: number
  received_bytes: number
  sent_bytes: number
  read_at: Date
}

const ROWS_MAX = 50_000

export async function readCounters(db: Db, since: Date): Promise<CountersRow[]> {
  const { rows } = await sql<CountersRow>`
    select workspace_id, fence, cpu_usec, rx_bytes as received_bytes, tx_bytes as sent_bytes, read_at from usage_counters
    where read_at > ${since} order by read_at desc limit ${ROWS_MAX}`.execute(db)
  return rows
}
