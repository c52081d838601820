import type { Generated } from 'kysely'
import type { ScanFinding } from '../../contract/schemas/scan-findings.ts'
import type { JsonWithDefault, Json } from './schema.ts'

export interface TemplateBuildsTable {
  id: string
  organization_id: string
  project_id: string
  template_id: string
  operation_id: string
  kind: 'save_as_template' | 'draft' | 'recipe'
  spec: Json<object>
  capture_operation_id: string | null
  findings: JsonWithDefault<ScanFinding[]>
  version_id: string | null
  log_bytes: Generated<number>
  created_at: Date
}

export interface TemplateDraftsTable {
  id: string
  organization_id: string
  project_id: string
  template_id: string
  workspace_id: string
  base_version: number | null
  created_at: Date
  discarded_at: Date | null
}

export interface TemplateDraftStatesTable {
  id: string
  draft_id: string
  operation_id: string
  label: string | null
  layers: string[] | null
  created_at: Date
}

export interface TemplateBuildLogsTable {
  build_id: string
  start_byte: number
  text: string
}
