import type { ColumnType } from 'kysely'
import type { Int8, Int8WithDefault, Json } from './schema.ts'

/** Of a file-first workspace; its revision stands in the workspace's row too. */
export interface TreesTable {
  workspace_id: string
  revision: Int8WithDefault
  root: string | null
  entries: Int8WithDefault
  bytes: Int8WithDefault
  created_at: Date
  updated_at: Date
  collected_at: ColumnType<Date | null, Date | null | undefined, Date | null>
}

export interface TreeRevisionsTable {
  workspace_id: string
  revision: Int8
  root: string | null
  superseded_at: Date
}

export interface TreeKeysTable {
  workspace_id: string
  key: string
  fingerprint: Buffer
  revision: Int8
  answer: Json<object>
  created_at: Date
}
