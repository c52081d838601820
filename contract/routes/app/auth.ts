import Type from 'typebox'
import { ANYONE, ofSessions } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { LIMITS } from '../../limits.ts'
import { appRoute } from '../../route.ts'
import {
  Accepted,
  ChallengeRequest,
  ChangedEmail,
  CodeRequest,
  CurrentSession,
  EmailChangeRequest,
  EmailedTokenRequest,
  EmailRequest,
  LoginRequest,
  PasswordChangeRequest,
  PasswordResetRequest,
  PersonSessionList,
  RecoveryCodes,
  RecoveryCodesLeft,
  RegisterRequest,
  RotatedSession,
  SignedIn,
  SignedInWithCodes,
  StepUpRequest,
  TotpStarted,
} from '../../schemas/auth.ts'
import { PageQuery, Uuid } from '../../schemas/common.ts'

const body_bytes_max = LIMITS.sign_in.body_bytes_max
const NO_DATABASE = { dependency_unavailable: NO_REASON } as const

export const authRegister = appRoute({
  id: 'auth.register',
  method: 'POST',
  path: '/v1/auth/register',
  summary: 'Ask for an account; a mail has the link that verifies the address',
  access: ANYONE,
  body: RegisterRequest,
  body_bytes_max,
  answers: { 202: { schema: Accepted, description: 'The same whether there is such an account or not' } },
  errors: { ...NO_DATABASE, forbidden: NO_REASON, token_invalid: NO_REASON },
})

export const authVerifyEmail = appRoute({
  id: 'auth.verify_email',
  method: 'POST',
  path: '/v1/auth/verify-email',
  summary: 'The address is verified by the token of the link that was sent to it',
  access: ANYONE,
  body: EmailedTokenRequest,
  body_bytes_max,
  answers: { 204: { description: 'It is verified' } },
  errors: { ...NO_DATABASE, token_invalid: NO_REASON },
})

export const authResend = appRoute({
  id: 'auth.resend_verification',
  method: 'POST',
  path: '/v1/auth/verify-email/resend',
  summary: 'Another mail with a link; the link before it is good no more',
  access: ANYONE,
  body: EmailRequest,
  body_bytes_max,
  answers: { 202: { schema: Accepted, description: 'The same for every address' } },
  errors: NO_DATABASE,
})

export const authLogin = appRoute({
  id: 'auth.login',
  method: 'POST',
  path: '/v1/auth/login',
  summary: 'Sign in with address and password',
  access: ANYONE,
  body: LoginRequest,
  body_bytes_max,
  answers: { 200: { schema: SignedIn, description: 'A session, which may have to wait for its second factor' } },
  errors: { ...NO_DATABASE, invalid_credentials: NO_REASON },
})

export const authChallenge = appRoute({
  id: 'auth.mfa_challenge',
  method: 'POST',
  path: '/v1/auth/mfa/challenge',
  summary: 'The second factor of a sign-in: a code of the authenticator, or a recovery code',
  access: ofSessions({ unfinished: true }),
  body: ChallengeRequest,
  body_bytes_max,
  answers: { 200: { schema: SignedIn, description: 'Signed in' } },
  errors: { invalid_credentials: NO_REASON, rate_limited: ['mfa_locked'], conflict: NO_REASON, validation_failed: NO_REASON },
})

export const authSession = appRoute({
  id: 'auth.session',
  method: 'GET',
  path: '/v1/auth/session',
  summary: 'The session that asks, also while it waits for its second factor',
  access: ofSessions({ unfinished: true }),
  answers: { 200: { schema: CurrentSession, description: 'The session' } },
  errors: {},
})

export const authLogout = appRoute({
  id: 'auth.logout',
  method: 'POST',
  path: '/v1/auth/logout',
  summary: 'End this session',
  revokes: 'everywhere',
  access: ofSessions({ unfinished: true }),
  answers: { 204: { description: 'It has ended' } },
  errors: {},
})

export const authLogoutAll = appRoute({
  id: 'auth.logout_all',
  method: 'POST',
  path: '/v1/auth/logout-all',
  summary: 'End all sessions of the person, this one too',
  revokes: 'everywhere',
  access: ofSessions(),
  answers: { 204: { description: 'They have ended' } },
  errors: {},
})

export const authSessions = appRoute({
  id: 'auth.sessions',
  method: 'GET',
  path: '/v1/auth/sessions',
  summary: 'Sessions of the person that are in force, newest first',
  access: ofSessions(),
  query: Type.Object(PageQuery),
  answers: { 200: { schema: PersonSessionList, description: 'A page' } },
  errors: {},
})

export const authSessionsDelete = appRoute({
  id: 'auth.end_session',
  method: 'DELETE',
  path: '/v1/auth/sessions/{session_id}',
  summary: 'End a session of the person; repeating says the same',
  revokes: 'everywhere',
  access: ofSessions(),
  params: Type.Object({ session_id: Uuid() }),
  answers: { 204: { description: 'It has ended' } },
  errors: { not_found: NO_REASON },
})

export const authStepUp = appRoute({
  id: 'auth.step_up',
  method: 'POST',
  path: '/v1/auth/step-up',
  summary: 'Give the password again: for 10 minutes sensitive actions ask for none',
  access: ofSessions(),
  body: StepUpRequest,
  body_bytes_max,
  answers: { 200: { schema: RotatedSession, description: 'The session goes on under another token' } },
  errors: { invalid_credentials: NO_REASON },
})

export const authPasswordChange = appRoute({
  id: 'auth.change_password',
  method: 'POST',
  path: '/v1/auth/password/change',
  summary: 'Another password',
  revokes: 'everywhere',
  access: ofSessions(),
  body: PasswordChangeRequest,
  body_bytes_max,
  answers: { 200: { schema: RotatedSession, description: 'The session goes on under another token' } },
  errors: { invalid_credentials: NO_REASON },
})

export const authResetRequest = appRoute({
  id: 'auth.request_reset',
  method: 'POST',
  path: '/v1/auth/password/reset/request',
  summary: 'A mail with a link by which a forgotten password is replaced',
  access: ANYONE,
  body: EmailRequest,
  body_bytes_max,
  answers: { 202: { schema: Accepted, description: 'The same for every address' } },
  errors: NO_DATABASE,
})

export const authResetConfirm = appRoute({
  id: 'auth.confirm_reset',
  method: 'POST',
  path: '/v1/auth/password/reset/confirm',
  summary: 'Replace the password by the token of the link; every session of the person ends',
  revokes: 'everywhere',
  access: ANYONE,
  body: PasswordResetRequest,
  body_bytes_max,
  answers: { 204: { description: 'It is replaced. Sign in with it' } },
  errors: { ...NO_DATABASE, token_invalid: NO_REASON },
})

export const authEmailChange = appRoute({
  id: 'auth.change_email',
  method: 'POST',
  path: '/v1/auth/email/change',
  summary: 'A mail to another address with the link that makes it the address of the account',
  access: ofSessions({ step_up: true }),
  body: EmailChangeRequest,
  body_bytes_max,
  answers: { 202: { schema: Accepted, description: 'The same whether somebody has the address or not' } },
  errors: {},
})

export const authEmailChangeConfirm = appRoute({
  id: 'auth.confirm_email',
  method: 'POST',
  path: '/v1/auth/email/change/confirm',
  summary: 'The address changes, by the token of the link and a session of the same person',
  access: ofSessions(),
  body: EmailedTokenRequest,
  body_bytes_max,
  answers: { 200: { schema: ChangedEmail, description: 'The address of the account' } },
  errors: { token_invalid: NO_REASON },
})

export const authTotpStart = appRoute({
  id: 'auth.start_totp',
  method: 'POST',
  path: '/v1/auth/mfa/totp',
  summary: 'Begin with a second factor: a secret for an authenticator. It asks for nothing until it is confirmed',
  access: ofSessions({ step_up: true }),
  answers: { 201: { schema: TotpStarted, description: 'The secret, shown this once' } },
  errors: { conflict: NO_REASON },
})

export const authTotpConfirm = appRoute({
  id: 'auth.confirm_totp',
  method: 'POST',
  path: '/v1/auth/mfa/totp/confirm',
  summary: 'Turn the second factor on, by the first code',
  access: ofSessions({ step_up: true }),
  body: CodeRequest,
  body_bytes_max,
  answers: { 200: { schema: SignedInWithCodes, description: 'The session goes on under another token' } },
  errors: { invalid_credentials: NO_REASON, conflict: NO_REASON, rate_limited: ['mfa_locked'] },
})

export const authTotpDisable = appRoute({
  id: 'auth.disable_totp',
  method: 'DELETE',
  path: '/v1/auth/mfa/totp',
  summary: 'Turn the second factor off; recovery codes go with it',
  access: ofSessions({ step_up: true }),
  answers: { 200: { schema: RotatedSession, description: 'The session goes on under another token' } },
  errors: { conflict: NO_REASON },
})

export const authRecoveryCodes = appRoute({
  id: 'auth.recovery_codes',
  method: 'GET',
  path: '/v1/auth/mfa/recovery-codes',
  summary: 'How many recovery codes are left',
  access: ofSessions(),
  answers: { 200: { schema: RecoveryCodesLeft, description: 'How many' } },
  errors: {},
})

export const authRecoveryCodesIssue = appRoute({
  id: 'auth.issue_recovery_codes',
  method: 'POST',
  path: '/v1/auth/mfa/recovery-codes',
  summary: 'Other recovery codes',
  access: ofSessions({ step_up: true }),
  answers: { 200: { schema: RecoveryCodes, description: 'Shown this once' } },
  errors: { conflict: NO_REASON },
})
