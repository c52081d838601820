import type { ColumnType, Generated } from 'kysely'
import type { EmailTokenPurpose, MailKind } from '../../contract/states/mail.ts'

export interface PersonSessionsTable {
  id: string
  person_id: string
  token_sha256: Buffer
  created_at: Date
  last_used_at: Date
  expires_at: Date
  revoked_at: Date | null
  mfa_pending: Generated<boolean>
  /** Last password check in this session. */
  stepped_up_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  device: ColumnType<string | null, string | null | undefined, string | null>
  address: ColumnType<string | null, string | null | undefined, string | null>
}

export interface PersonCredentialsTable {
  person_id: string
  password_hash: string | null
  password_changed_at: Date | null
  totp_sealed: ColumnType<Buffer | null, Buffer | null | undefined, Buffer | null>
  totp_step: ColumnType<number, number | undefined, number>
  totp_pending_sealed: ColumnType<Buffer | null, Buffer | null | undefined, Buffer | null>
  totp_pending_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  mfa_failures: Generated<number>
  mfa_locked_until: ColumnType<Date | null, Date | null | undefined, Date | null>
}

export interface RecoveryCodesTable {
  person_id: string
  code_sha256: Buffer
  created_at: Date
  used_at: Date | null
}

export interface EmailTokensTable {
  token_sha256: Buffer
  person_id: string
  purpose: EmailTokenPurpose
  email: string
  created_at: Date
  expires_at: Date
  used_at: Date | null
}

export interface InvitationsTable {
  id: string
  organization_id: string
  email: string
  role: 'owner' | 'admin' | 'member' | 'billing'
  invited_by: string | null
  token_sha256: Buffer | null
  created_at: Date
  expires_at: Date
  accepted_at: Date | null
  revoked_at: Date | null
}

export interface MailsTable {
  id: string
  kind: MailKind
  email: string
  person_id: string | null
  invitation_id: string | null
  spend_alert_id: Generated<string | null>
  created_at: Date
  next_try_at: Date
  tries: Generated<number>
  sent_at: Date | null
  given_up_at: Date | null
  last_error: string | null
}

export interface ApiKeyUsesTable {
  api_key_id: string
  last_used_at: Date
}

export interface PeopleTable {
  id: string
  email: string
  email_verified: Generated<boolean>
  display_name: string | null
  mfa_enabled: Generated<boolean>
  created_at: Date
  /** End of the account. The row stays because other rows reference it. */
  deleted_at: ColumnType<Date | null, Date | null | undefined, Date | null>
}

export interface MembershipsTable {
  organization_id: string
  person_id: string
  role: 'owner' | 'admin' | 'member' | 'billing'
  created_at: Date
}

export interface ApiKeysTable {
  id: string
  key_id: string
  secret_sha256: Buffer
  organization_id: string
  project_id: string
  name: Generated<string>
  tool_permissions: string[]
  created_at: Date
  expires_at: Date | null
  revoked_at: Date | null
  tools_changed_at: Date | null
}
