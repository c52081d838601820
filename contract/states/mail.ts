/** A token is valid for one purpose only. */
export const EMAIL_TOKEN_PURPOSES = ['verify_email', 'reset_password', 'change_email'] as const
export type EmailTokenPurpose = (typeof EMAIL_TOKEN_PURPOSES)[number]

/** The first five contain a link. Their text is chosen when they are sent, so the request reveals nothing about the account. */
export const MAIL_KINDS = [
  'verify_email',
  'reset_password',
  'change_email',
  'invitation',
  'already_registered',
  'password_changed',
  'email_changed',
  'mfa_enabled',
  'mfa_disabled',
  'account_deleted',
  'spend_alert',
] as const
export type MailKind = (typeof MAIL_KINDS)[number]
