import { acceptInvitation } from './invitations/accept.ts'
import { challenge } from './auth/challenge.ts'
import { changeEmail, confirmEmail } from './auth/email-change.ts'
import { changePassword, confirmReset, requestReset, stepUp } from './auth/password.ts'
import { confirmTotp, disableTotp, getRecoveryCodes, issueRecoveryCodes, startTotp } from './auth/second-factor.ts'
import { createApiKey } from './api-keys/create.ts'
import { createInvitation } from './invitations/create.ts'
import { createProject, updateProject } from './projects/create.ts'
import { deleteInvitation, resendInvitation } from './invitations/resend.ts'
import { deleteMember } from './members/delete.ts'
import { endSession, getSession, listOwnSessions, logOut, logOutEverywhere } from './auth/sessions.ts'
import { getApiKey, listApiKeysOfProject } from './api-keys/get.ts'
import { getClientVersions } from './principals/client-versions.ts'
import { getMe } from './principals/me.ts'
import { getProject } from './projects/get.ts'
import { listInvitationsOfOrganization } from './invitations/list.ts'
import { listMembersOfOrganization } from './members/list.ts'
import { listProjectsOfOrganization } from './projects/list.ts'
import { logIn } from './auth/login.ts'
import { register, resendVerification, verifyEmail } from './auth/register.ts'
import { revokeApiKey, updateApiKey } from './api-keys/update.ts'
import { updateMember } from './members/update.ts'

export const ACCESS_HANDLERS = {
  'client-versions.get': getClientVersions,
  'principals.me': getMe,
  'projects.list': listProjectsOfOrganization,
  'projects.get': getProject,
  'auth.register': register,
  'auth.verify_email': verifyEmail,
  'auth.resend_verification': resendVerification,
  'auth.login': logIn,
  'auth.mfa_challenge': challenge,
  'auth.session': getSession,
  'auth.logout': logOut,
  'auth.logout_all': logOutEverywhere,
  'auth.sessions': listOwnSessions,
  'auth.end_session': endSession,
  'auth.step_up': stepUp,
  'auth.change_password': changePassword,
  'auth.request_reset': requestReset,
  'auth.confirm_reset': confirmReset,
  'auth.change_email': changeEmail,
  'auth.confirm_email': confirmEmail,
  'auth.start_totp': startTotp,
  'auth.confirm_totp': confirmTotp,
  'auth.disable_totp': disableTotp,
  'auth.recovery_codes': getRecoveryCodes,
  'auth.issue_recovery_codes': issueRecoveryCodes,
  'projects.create': createProject,
  'projects.update': updateProject,
  'members.list': listMembersOfOrganization,
  'members.update': updateMember,
  'members.delete': deleteMember,
  'invitations.list': listInvitationsOfOrganization,
  'invitations.create': createInvitation,
  'invitations.resend': resendInvitation,
  'invitations.delete': deleteInvitation,
  'invitations.accept': acceptInvitation,
  'api-keys.list': listApiKeysOfProject,
  'api-keys.create': createApiKey,
  'api-keys.get': getApiKey,
  'api-keys.update': updateApiKey,
  'api-keys.delete': revokeApiKey,
}
