import type { NormalSecretHost } from '../../contract/schemas/secrets.ts'
import type { Json, NullableJson } from './schema.ts'

export interface SealingKeysTable {
  key_id: string
  public_jwk: Json<object>
  created_at: Date
}

export interface SecretsTable {
  id: string
  organization_id: string
  project_id: string | null
  name: string
  description: string | null
  allowed_project_ids: string[] | null
  allowed_workspace_ids: string[] | null
  allowed_tools: string[]
  hosts: NullableJson<NormalSecretHost[]>
  version: number
  created_at: Date
  updated_at: Date
  deleted_at: Date | null
}

export interface SecretVersionsTable {
  id: string
  secret_id: string
  version: number
  created_at: Date
  erased_at: Date | null
  key_id: string | null
  wrapped_key: string | null
  ciphertext: Buffer | null
}

export interface WorkspaceSecretsTable {
  workspace_id: string
  project_id: string
  name: string
}

export interface AuthoritiesTable {
  id: string
  certificate: string
  key_id: string
  sealed_key: string
  created_at: Date
}

export interface WorkspaceAuthoritiesTable {
  workspace_id: string
  authority_id: string
}
