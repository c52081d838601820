import type { ColumnType, JSONColumnType } from 'kysely'

/** int8, as in schema.ts. */
type Count = ColumnType<number, number, number>
type Counted = ColumnType<number, number | undefined, number>

/** Of a file-first workspace; its revision stands in the workspace's row too. */
export interface TreesTable {
  workspace_id: string
  revision: Counted
  root: string | null
  entries: Counted
  bytes: Counted
  created_at: Date
  updated_at: Date
  collected_at: ColumnType<Date | null, Date | null | undefined, Date | null>
}

export interface TreeRevisionsTable {
  workspace_id: string
  revision: Count
  root: string | null
  superseded_at: Date
}

export interface TreeKeysTable {
  workspace_id: string
  key: string
  fingerprint: Buffer
  revision: Count
  answer: JSONColumnType<object, string, string>
  created_at: Date
}
