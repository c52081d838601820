import type { ColumnType, Generated } from 'kysely'

type Int8 = ColumnType<number, number | bigint | undefined, number | bigint>

export interface WorkspacePortsTable {
  id: string
  workspace_id: string
  port: number
  requests: Int8
  received_bytes: Int8
  sent_bytes: Int8
  last_request_at: Generated<Date | null>
  created_at: Date
}

export interface PortCredentialsTable {
  id: string
  port_id: string
  kind: 'token' | 'link' | 'cookie' | 'callback'
  sha256: Buffer
  path: string | null
  created_at: Date
  expires_at: Date | null
}
