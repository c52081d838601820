import { sql, type Insertable } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { Tx } from '../../db/reader.ts'
import type { Database } from '../../db/schema.ts'

export type AuditEvent = Required<Insertable<Database['audit_events']>>

export async function insertAuditEvent(tx: Tx, event: AuditEvent): Promise<void> {
  await tx.insertInto('audit_events').values(event).execute()
}

/** Columns with the types of their parameters, in the order of auditValues. */
const COLUMNS = {
  id: 'uuid',
  created_at: 'timestamptz',
  organization_id: 'uuid',
  project_id: 'uuid',
  actor_kind: 'text',
  actor_id: 'uuid',
  actor_name: 'text',
  action: 'text',
  subject_kind: 'text',
  subject_id: 'text',
  request_id: 'text',
  source_address: 'text',
  details: 'jsonb',
} as const satisfies Record<keyof AuditEvent, string>

/**
 * The part of a larger statement that writes the record of what the statement does: a change that is one statement needs no transaction
 * of several. Nothing is recorded where the values are those of null.
 * @param from a query of the statement: one record for each of its rows.
 * @param first the number of the first of its parameters.
 */
export function auditText(from: string, first: number): string {
  const values = Object.values(COLUMNS).map((type, at) => `$${first + at}::${type}`)
  return `insert into audit_events (${Object.keys(COLUMNS).join(', ')}) select ${values.join(', ')} from ${from} where $${first}::uuid is not null`
}

export function auditValues(event: AuditEvent | null): unknown[] {
  return (Object.keys(COLUMNS) as (keyof AuditEvent)[]).map((name) => event?.[name] ?? null)
}

/** In small statements. @returns how many went. */
export async function dropAuditEvents(db: Db, created_before: Date, rows_max: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`delete from audit_events where id in (
    select id from audit_events where created_at < ${created_before} order by created_at limit ${rows_max})`.execute(db)
  return Number(numAffectedRows)
}
