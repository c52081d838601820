import type { ColumnType, Generated } from 'kysely'
import type { AlertSubject, Allowance } from '../../contract/schemas/spend.ts'
import type { Int8, Int8WithDefault } from './schema.ts'

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
  /** Traffic of its ports: received from and sent to visitors. */
  port_received_bytes: Int8WithDefault
  port_sent_bytes: Int8WithDefault
  sampled_ms: Int8
  /** It has no ledger entry yet, or grew after its last one. */
  is_open: Generated<boolean>
  entries: Generated<number>
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

/** Entries are whole units of each meter (App, "Usage and spend"). */
export interface UsageEntriesTable {
  subject_kind: 'workspace' | 'volume'
  subject_id: string
  hour: Date
  organization_id: string
  project_id: string | null
  entry: number
  cpu_seconds: Int8WithDefault
  memory_gib_seconds: Int8WithDefault
  storage_gib_seconds: Int8WithDefault
  egress_bytes: Int8WithDefault
  ingress_bytes: Int8WithDefault
  volume_storage_gib_seconds: Int8WithDefault
  written_at: Date
}

export interface UsageHoursTable {
  organization_id: string
  hour: Date
  project_id: string | null
  cpu_seconds: Int8WithDefault
  memory_gib_seconds: Int8WithDefault
  storage_gib_seconds: Int8WithDefault
  egress_bytes: Int8WithDefault
  ingress_bytes: Int8WithDefault
  volume_storage_gib_seconds: Int8WithDefault
}

export interface UsageGrantsTable {
  id: string
  organization_id: string
  allowance: Allowance
  granted_meter_units: number
  note: Generated<string>
  created_at: Date
  expires_at: Date | null
  revoked_at: Date | null
}

export interface UsageGrantDrawsTable {
  grant_id: string
  period_starts_at: Date
  meter_units: number
  drawn_at: Date
}

export interface SpendAlertSettingsTable {
  organization_id: string
  thresholds_percent: number[]
  changed_at: Date
}

export interface SpendAlertsTable {
  id: string
  organization_id: string
  period_starts_at: Date
  subject: AlertSubject
  threshold_percent: number
  reached_at: Date
  mailed_at: Date | null
}

export interface SpendPoliciesTable {
  organization_id: string
  version: number
  overage_enabled: boolean
  spend_cap_minor: number | null
  enabled_in: Date | null
  changed_at: Date
}
