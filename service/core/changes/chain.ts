import { createHash } from 'node:crypto'
import type { Selectable } from 'kysely'
import type { Database } from '../../db/schema.ts'

export type EventRow = Selectable<Database['audit_events']>
type EventFacts = Omit<EventRow, 'sequence' | 'sha256'>

export const CHAIN_START: Link = { sequence: 0, sha256: Buffer.alloc(32) }
/** For records that belong to no organization. */
export const INSTALLATION_CHAIN = '00000000-0000-0000-0000-000000000000'

/** A position in a chain. The digest covers all records up to it. */
export interface Link {
  sequence: number
  sha256: Buffer
}

/** docs/operating/people.md describes the computation for auditors. */
export function linkAfter(before: Link, row: EventFacts): Link {
  const sequence = before.sequence + 1
  const text = [before.sha256.toString('hex'), String(sequence), factsOf(row)].join('\n')
  return { sequence, sha256: createHash('sha256').update(text).digest() }
}

function factsOf(row: EventFacts): string {
  return JSON.stringify([
    row.id,
    row.created_at.toISOString(),
    row.organization_id,
    row.project_id,
    row.actor_kind,
    row.actor_id,
    row.actor_name,
    row.action,
    row.subject_kind,
    row.subject_id,
    row.request_id,
    row.source_address,
    Object.entries(row.details).sort(([a], [b]) => (a < b ? -1 : 1)),
  ])
}

export type Broken = { sequence: number; id: string | null; why: string }

export function firstBroken(before: Link, rows: readonly EventRow[]): Broken | Link {
  let link = before
  for (const row of rows) {
    const expected = linkAfter(link, row)
    if (row.sequence !== expected.sequence) return { sequence: expected.sequence, id: null, why: 'it is missing' }
    if (row.sha256 === null || !expected.sha256.equals(row.sha256)) {
      return { sequence: expected.sequence, id: row.id, why: 'it was changed, or one before it was replaced' }
    }
    link = expected
  }
  return link
}
