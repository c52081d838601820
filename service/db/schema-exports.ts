import type { Generated } from 'kysely'
import type { ExportFailure, ExportState } from '../../contract/schemas/exports.ts'

export interface ExportsTable {
  id: string
  /** null: the export of the requester's own account. */
  organization_id: string | null
  requested_by: string
  state: ExportState
  failure: ExportFailure | null
  attempt: Generated<number>
  next_try_at: Date
  size_bytes: number | null
  sha256: string | null
  created_at: Date
  completed_at: Date | null
  expires_at: Date | null
}

export interface ExportPartsTable {
  export_id: string
  attempt: number
  number: number
  bytes: Buffer
}
