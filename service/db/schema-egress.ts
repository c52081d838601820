import type { EgressMode, EgressPolicy } from '../../contract/egress/policy.ts'
import type { Int8, Json } from './schema.ts'

export interface EgressVersionsTable {
  id: string
  organization_id: string
  project_id: string
  /** null: the project's policy. */
  workspace_id: string | null
  version: number
  /** null: the override was removed. */
  mode: EgressMode | null
  rules: Json<EgressPolicy['rules']>
  cidrs: string[]
  created_by_type: 'user' | 'api_key'
  created_by_id: string
  created_at: Date
}

export interface WorkspaceEgressTable {
  workspace_id: string
  epoch: Int8
  fence: Int8
  revision: string
  state: 'enforced' | 'failed'
  acknowledged_at: Date
}

export interface EgressDenialsTable {
  workspace_id: string
  protocol: 'tcp' | 'udp' | 'dns' | 'other'
  /** The address or the requested name. */
  target: string
  /** 0: no port. */
  port: number
  first_at: Date
  name: string | null
  address: string | null
  count: Int8
  last_at: Date
}
