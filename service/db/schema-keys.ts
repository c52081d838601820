import type { Json } from './schema.ts'

export interface SigningKeysTable {
  kid: string
  public_jwk: Json<object>
  created_at: Date
  retired_at: Date | null
}

export interface ServiceKeysTable {
  purpose: 'cursor' | 'idempotency'
  key_id: string
  created_at: Date
  check_sha256: Buffer | null
  retired_at: Date | null
}
