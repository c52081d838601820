import type { ColumnType } from 'kysely'
import type { Int8, Int8WithDefault, Json } from './schema.ts'

/** Tree of a file-first workspace. workspaces.tree_revision repeats its revision. */
export interface TreesTable {
  workspace_id: string
  revision: Int8WithDefault
  root: string | null
  entries: Int8WithDefault
  bytes: Int8WithDefault
  created_at: Date
  updated_at: Date
  collected_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  /** Workspace whose store holds the contents; null: its own. */
  store_id: ColumnType<string | null, string | null | undefined, never>
  /** TreeCounts */
  changes: ColumnType<object | null, string | null | undefined, string | null>
  /** MadeBy */
  made_by: ColumnType<object | null, string | null | undefined, string | null>
  /** Execution that runs on it; null: none. */
  execution_id: ColumnType<string | null, string | null | undefined, string | null>
}

/** Entries that changed since the revision before. */
export interface TreeCounts {
  added: number
  modified: number
  metadata: number
  deleted: number
  replaced: number
}

/** Origin of a revision: the route id of a call, or a command. */
export type MadeBy = { call: string } | { execution_id: string }

export interface TreeRevisionsTable {
  workspace_id: string
  revision: Int8
  root: string | null
  superseded_at: Date
  entries: ColumnType<number | null, number | bigint | null | undefined, never>
  bytes: ColumnType<number | null, number | bigint | null | undefined, never>
  created_at: ColumnType<Date | null, Date | null | undefined, never>
  /** TreeCounts */
  changes: ColumnType<object | null, string | null | undefined, string | null>
  /** MadeBy */
  made_by: ColumnType<object | null, string | null | undefined, string | null>
}

export interface TreeKeysTable {
  workspace_id: string
  key: string
  fingerprint: Buffer
  revision: Int8
  answer: Json<object>
  created_at: Date
}
