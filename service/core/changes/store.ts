import { CompiledQuery, type Insertable } from 'kysely'
import { queueLastStatement } from '../../db/last-statement.ts'
import type { Tx } from '../../db/reader.ts'
import type { Database } from '../../db/schema.ts'

/** Without the position in the chain, which `linkEvents` sets after the commit. */
export type AuditEvent = Required<Omit<Insertable<Database['audit_events']>, 'sequence' | 'sha256'>>

/** In the order of `auditValues`. */
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

const NAMES = Object.keys(COLUMNS) as (keyof AuditEvent)[]
const INSERT = `insert into audit_events (${NAMES.join(', ')}) values (${NAMES.map((name, at) => `$${at + 1}::${COLUMNS[name]}`).join(', ')})`

export async function insertAuditEvent(tx: Tx, event: AuditEvent): Promise<void> {
  await tx.executeQuery(CompiledQuery.raw(INSERT, auditValues(event)))
}

/** Sends the record together with the commit, which saves a round trip (decision 242). */
export function insertAuditEventLast(tx: Tx, event: AuditEvent): Promise<void> {
  return queueLastStatement(tx, INSERT, auditValues(event))
}

/**
 * Writes a record within another statement, without a transaction. With the values of null nothing is recorded.
 * @param from a query of the statement: one record for each of its rows.
 * @param first the number of the first parameter.
 */
export function auditText(from: string, first: number): string {
  const values = Object.values(COLUMNS).map((type, at) => `$${first + at}::${type}`)
  return `insert into audit_events (${NAMES.join(', ')}) select ${values.join(', ')} from ${from} where $${first}::uuid is not null`
}

export function auditValues(event: AuditEvent | null): (string | Date | null)[] {
  return NAMES.map((name) => event?.[name] ?? null)
}
