import type { ColumnType, JSONColumnType } from 'kysely'

type Json<T extends object> = JSONColumnType<T, string, string>
type JsonWithDefault<T extends object> = ColumnType<T, string | undefined, string>
type Int8 = ColumnType<number, number | bigint, number | bigint>

/** The columns `actor_*` of a record. */
export interface ActorFacts {
  kind: AuditEventsTable['actor_kind']
  id: string | null
  name: string | null
}

export interface AuditEventsTable {
  id: string
  created_at: Date
  organization_id: string | null
  project_id: string | null
  actor_kind: 'api_key' | 'user' | 'tool_token' | 'operator' | 'service'
  actor_id: string | null
  actor_name: string | null
  action: string
  subject_kind: string
  subject_id: string
  request_id: string | null
  source_address: string | null
  details: Json<Record<string, unknown>>
  /** Written once, by the process that links the records. Inserts leave it null. */
  sequence: ColumnType<number | null, never, number>
  sha256: ColumnType<Buffer | null, never, Buffer>
}

export interface AuditChainsTable {
  chain_id: string
  sequence: Int8
  sha256: Buffer
  dropped_sequence: Int8
  dropped_sha256: Buffer
}

export interface FeedbackTable {
  id: string
  received_at: Date
  organization_id: string | null
  principal_type: 'api_key' | 'user'
  principal_id: string
  category: 'bug' | 'confusing' | 'missing' | 'idea' | 'praise' | 'other'
  message: string | null
  message_sha256: Buffer
  context: JsonWithDefault<Record<string, string>>
  duplicate_of: string | null
}
