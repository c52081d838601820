const NOTHING = {}

export const PEOPLE_GRANTS = {
  projects: { api: { select: 'all', insert: 'all', update: ['name'] }, cell: NOTHING },
  people: {
    api: { select: 'all', insert: 'all', update: ['email', 'email_verified', 'display_name', 'mfa_enabled', 'deleted_at'] },
    cell: NOTHING,
  },
  memberships: {
    api: { select: 'all', insert: 'all', update: ['role'], delete: true },
    cell: { select: ['organization_id', 'person_id', 'role'] },
  },
  person_credentials: {
    api: {
      select: 'all',
      insert: 'all',
      update: [
        'password_hash',
        'password_changed_at',
        'totp_sealed',
        'totp_step',
        'totp_pending_sealed',
        'totp_pending_at',
        'mfa_failures',
        'mfa_locked_until',
      ],
      delete: true,
    },
    cell: NOTHING,
  },
  recovery_codes: { api: { select: 'all', insert: 'all', update: ['used_at'], delete: true }, cell: NOTHING },
  person_sessions: {
    api: {
      select: 'all',
      insert: 'all',
      update: ['token_sha256', 'last_used_at', 'revoked_at', 'mfa_pending', 'stepped_up_at', 'device', 'address'],
      delete: true,
    },
    cell: { select: ['id', 'person_id', 'revoked_at'] },
  },
  email_tokens: { api: { select: 'all', insert: 'all', update: ['used_at'], delete: true }, cell: NOTHING },
  invitations: {
    api: { select: 'all', insert: 'all', update: ['token_sha256', 'expires_at', 'accepted_at', 'revoked_at'], delete: true },
    cell: NOTHING,
  },
  exports: {
    api: {
      select: 'all',
      insert: 'all',
      update: ['state', 'failure', 'attempt', 'next_try_at', 'size_bytes', 'sha256', 'completed_at', 'expires_at'],
      delete: true,
    },
    cell: NOTHING,
  },
  export_parts: { api: { select: 'all', insert: 'all', delete: true }, cell: NOTHING },
  mails: {
    api: { select: 'all', insert: 'all', update: ['next_try_at', 'tries', 'sent_at', 'given_up_at', 'last_error'], delete: true },
    cell: NOTHING,
  },
  api_key_uses: { api: { select: 'all', insert: 'all', update: ['last_used_at'] }, cell: NOTHING },
  api_keys: {
    api: { select: 'all', insert: 'all', update: ['name', 'tool_permissions', 'expires_at', 'revoked_at', 'tools_changed_at'] },
    cell: { select: ['id', 'tool_permissions', 'expires_at', 'revoked_at', 'tools_changed_at'] },
  },
} as const
