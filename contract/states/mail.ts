/** What the token of an emailed link is good for. A token of one purpose is none of another. */
export const EMAIL_TOKEN_PURPOSES = ['verify_email', 'reset_password', 'change_email'] as const
export type EmailTokenPurpose = (typeof EMAIL_TOKEN_PURPOSES)[number]

/**
 * Every mail that the service sends. The first five carry a link with a token; what they find when they are sent decides what is written,
 * so that whoever asks for one learns nothing of the account.
 */
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
