import type { ColumnType, Generated } from 'kysely'
import type { StartupReason } from '../../contract/errors.ts'
import type { ScanFinding } from '../../contract/schemas/scan-findings.ts'
import type { Json, JsonWithDefault } from './schema.ts'

export interface TemplatesTable {
  id: string
  organization_id: string | null
  /** Project of the API key that created it; null: a person or the platform created it. */
  project_id: ColumnType<string | null, string | null | undefined, never>
  slug: string
  display_name: ColumnType<string | null, string | null | undefined, string | null>
  description: ColumnType<string | null, string | null | undefined, string | null>
  created_at: Date
  archived_at: Date | null
}

export interface TemplateVersionsTable {
  id: string
  template_id: string
  version: number
  layered: boolean
  layers: string[]
  settings: Json<object>
  egress: ColumnType<object | null, string | null | undefined, string | null>
  description: ColumnType<string | null, string | null | undefined, string | null>
  scan_findings: JsonWithDefault<ScanFinding[]>
  created_at: Date
  published_at: Date | null
  archived_at: Date | null
}

/** Column workspaces.startup: progress of the template version's start commands and services. The steps before `step` are done. */
export type StartupState =
  | { state: 'pending' | 'ready' }
  | { state: 'running'; step: string }
  | { state: 'failed'; step: string; reason: StartupReason; exit_code: number | null; output_tail: string }

export interface TemplateUploadsTable {
  id: string
  organization_id: string
  project_id: string
  size_bytes: ColumnType<number, number, number>
  sha256: string
  parts: JsonWithDefault<object[]>
  received_bytes: Generated<number>
  complete: Generated<boolean>
  created_at: Date
  used_at: Date
}

export interface LayerListsTable {
  layer: string
  state: 'wanted' | 'ready' | 'unavailable'
  reached: string | null
  updated_at: Date
}

export interface LayerDirectoriesTable {
  layer: string
  path_sha256: Buffer
  entries: Json<object[]>
}

export interface UnnamedLayersTable {
  cell_id: string
  layer: string
  size_bytes: number
  since: Date
}

export interface TemplateBuildStepsTable {
  organization_id: string
  cell_id: string
  key: string
  layer: string
  used_at: Date
}

export interface TemplateCapturesTable {
  id: string
  version_id: string
  cell_id: string
  organization_id: string
  project_id: string
  state: 'wanted' | 'making' | 'ready' | 'failed'
  checkpoint_id: string | null
  engine: string | null
  agent_protocol: number | null
  resources: ColumnType<object | null, string | null | undefined, string | null>
  size_bytes: ColumnType<number | null, number | null | undefined, number | null>
  error: ColumnType<object | null, string | null | undefined, string | null>
  created_at: Date
  updated_at: Date
  used_at: Date
}
