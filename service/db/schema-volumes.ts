import type { ColumnType, Generated } from 'kysely'

type Int8 = ColumnType<number, number | bigint, number | bigint>

export interface VolumesTable {
  id: string
  organization_id: string
  project_id: string
  cell_id: string | null
  name: string
  quota_gib: number
  org_shared: boolean
  state: 'creating' | 'available' | 'deleting' | 'deleted' | 'failed'
  created_at: Date
  updated_at: Date
  deleted_at: Date | null
}

export interface VolumeAttachmentsTable {
  id: string
  workspace_id: string
  volume_id: string
  mount_path: string
  mode: 'read_write' | 'read_only'
  place: number
  state: 'attaching' | 'attached' | 'detaching'
  operation_id: string | null
  created_at: Date
  updated_at: Date
}

export interface VolumeUsageSamplesTable {
  volume_id: string
  hour: Date
  organization_id: string
  project_id: string
  stored_byte_ms: string
  sampled_ms: Int8
  is_open: Generated<boolean>
  entries: Generated<number>
}

export interface VolumeUsageReadingsTable {
  volume_id: string
  read_at: Date
  run: string
  monotonic_ms: Int8
}
