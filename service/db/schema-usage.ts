import type { ColumnType } from 'kysely'
import type { Int8 } from './schema.ts'

export interface UsageSamplesTable {
  workspace_id: string
  hour: Date
  organization_id: string
  project_id: string | null
  cpu_usec: Int8
  memory_byte_ms: string
  disk_byte_ms: string
  checkpoint_byte_ms: string
  rx_bytes: Int8
  tx_bytes: Int8
  sampled_ms: Int8
}

export interface UsageCountersTable {
  workspace_id: string
  fence: Int8
  cpu_usec: Int8
  rx_bytes: Int8
  tx_bytes: Int8
  read_at: Date
  run: string | null
  monotonic_ms: ColumnType<number | null, number | null, number | null>
}

export interface UsageStorageTable {
  workspace_id: string
  read_at: Date
  run: string
  monotonic_ms: Int8
  disk_read_at: Date | null
  disk_run: string | null
  disk_monotonic_ms: ColumnType<number | null, number | null, number | null>
}
