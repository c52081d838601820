import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { FreeText, List, Nullable, strict, Text, Timestamp, Uuid } from './common.ts'

const { sign_in } = LIMITS

export const Email = (description?: string) =>
  Text({ minLength: 3, maxLength: sign_in.email_characters_max, ...(description === undefined ? {} : { description }) })
export const NewPassword = FreeText({
  minLength: sign_in.password_characters_min,
  maxLength: sign_in.password_characters_max,
  description: 'Any characters but NUL. Composed and decomposed forms of a letter are the same',
})
const GivenPassword = FreeText({ minLength: 1, maxLength: sign_in.password_characters_max })
export const EmailedToken = Text({
  minLength: 1,
  maxLength: sign_in.token_characters_max,
  description: 'From the link of a mail: what stands behind `#token=`',
})
const Code = Text({ minLength: 6, maxLength: 6, description: 'Six digits of the authenticator' })
export const DisplayName = Text({ minLength: 1, maxLength: sign_in.name_characters_max })
const Device = Text({
  minLength: 1,
  maxLength: sign_in.device_characters_max,
  description: 'How the session is called in the list of sessions; absent: what the program says of itself',
})

export const RegisterRequest = Type.Object(
  {
    email: Email(),
    password: NewPassword,
    display_name: Type.Optional(DisplayName),
    invitation_token: Type.Optional(EmailedToken),
  },
  { ...strict, title: 'RegisterRequest' },
)
export const EmailRequest = Type.Object({ email: Email() }, { ...strict, title: 'EmailRequest' })
export const EmailedTokenRequest = Type.Object({ token: EmailedToken }, { ...strict, title: 'EmailedTokenRequest' })
export const LoginRequest = Type.Object(
  { email: Email(), password: GivenPassword, device: Type.Optional(Device) },
  { ...strict, title: 'LoginRequest' },
)
export const ChallengeRequest = Type.Object(
  {
    code: Type.Optional(Code),
    recovery_code: Type.Optional(Text({ minLength: 1, maxLength: sign_in.token_characters_max, description: 'In the place of a code' })),
  },
  { ...strict, title: 'ChallengeRequest', description: 'One of both' },
)
export const StepUpRequest = Type.Object({ password: GivenPassword }, { ...strict, title: 'StepUpRequest' })
export const PasswordChangeRequest = Type.Object(
  {
    current_password: GivenPassword,
    new_password: NewPassword,
    end_other_sessions: Type.Optional(
      Type.Boolean({ description: 'Whether all other sessions of the person end too; absent: they go on' }),
    ),
  },
  { ...strict, title: 'PasswordChangeRequest' },
)
export const PasswordResetRequest = Type.Object(
  { token: EmailedToken, new_password: NewPassword },
  { ...strict, title: 'PasswordResetRequest' },
)
export const EmailChangeRequest = Type.Object({ new_email: Email() }, { ...strict, title: 'EmailChangeRequest' })
export const CodeRequest = Type.Object({ code: Code }, { ...strict, title: 'CodeRequest' })

/** Every address gets this answer: it does not reveal accounts. */
export const Accepted = Type.Object(
  { status: Type.Literal('accepted', { description: 'If the address is what the call is about, a mail is on its way' }) },
  { title: 'Accepted' },
)

const SIGNED_IN = {
  session_token: Type.String({ description: '`sfu_` and 43 characters. Shown this once; the one before it is revoked' }),
  session_expires_at: Timestamp('30 days from now, or 90 days from the sign-in, whichever is earlier'),
}
export const SignedIn = Type.Object(
  {
    ...SIGNED_IN,
    mfa_required: Type.Boolean({ description: 'The session waits for POST /v1/auth/mfa/challenge and is good for nothing else' }),
    email_verified: Type.Boolean({ description: 'Until it is, every other route answers `email_unverified`' }),
  },
  { title: 'SignedIn' },
)
export type SignedIn = Static<typeof SignedIn>

export const SignedInWithCodes = Type.Object(
  {
    ...SIGNED_IN,
    recovery_codes: Type.Array(Type.String(), { description: 'Each signs in once in the place of a code. Shown this once' }),
  },
  { title: 'SignedInWithCodes' },
)
export const RotatedSession = Type.Object(SIGNED_IN, { title: 'RotatedSession' })

const SESSION = {
  id: Uuid(),
  device: Nullable(Type.String()),
  address: Nullable(Type.String({ description: 'Of the sign-in. Behind a proxy it is the proxy' })),
  created_at: Timestamp(),
  last_used_at: Timestamp('To the hour'),
  session_expires_at: Timestamp(),
  mfa_required: Type.Boolean(),
}
export const CurrentSession = Type.Object(
  {
    ...SESSION,
    email_verified: Type.Boolean(),
    stepped_up_until: Nullable(Timestamp('Until when sensitive actions ask for no password; null: they ask for one')),
    user: Nullable(
      Type.Object(
        {
          id: Uuid(),
          email: Type.String(),
          email_verified: Type.Boolean(),
          display_name: Nullable(Type.String()),
          mfa_enabled: Type.Boolean(),
        },
        { description: 'null while the session waits for its second factor' },
      ),
    ),
  },
  { title: 'CurrentSession' },
)
export type CurrentSession = Static<typeof CurrentSession>

export const PersonSession = Type.Object(
  { ...SESSION, is_current: Type.Boolean({ description: 'It is the one that asks' }) },
  { title: 'PersonSession' },
)
export type PersonSession = Static<typeof PersonSession>
export const PersonSessionList = List(PersonSession, 'PersonSessionList')

export const ChangedEmail = Type.Object({ email: Type.String() }, { title: 'ChangedEmail' })
export const TotpStarted = Type.Object(
  {
    secret: Type.String({ description: 'Base32, for an authenticator without a camera' }),
    otpauth_url: Type.String({ description: 'For a QR code' }),
  },
  { title: 'TotpStarted' },
)
export const RecoveryCodesLeft = Type.Object({ left: Type.Integer() }, { title: 'RecoveryCodesLeft' })
export const RecoveryCodes = Type.Object(
  { recovery_codes: Type.Array(Type.String(), { description: 'Those before are good no more' }) },
  { title: 'RecoveryCodes' },
)
