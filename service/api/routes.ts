import { auditExport, auditList } from '../../contract/routes/app/audit.ts'
import {
  authChallenge,
  authEmailChange,
  authEmailChangeConfirm,
  authLogin,
  authLogout,
  authLogoutAll,
  authPasswordChange,
  authRecoveryCodes,
  authRecoveryCodesIssue,
  authRegister,
  authResend,
  authResetConfirm,
  authResetRequest,
  authSession,
  authSessions,
  authSessionsDelete,
  authStepUp,
  authTotpConfirm,
  authTotpDisable,
  authTotpStart,
  authVerifyEmail,
} from '../../contract/routes/app/auth.ts'
import {
  checkpointsDelete,
  checkpointsList,
  workspacesReset,
  workspacesRestore,
  workspacesAdopt,
  workspacesSnapshot,
} from '../../contract/routes/app/checkpoints.ts'
import {
  projectEgressGet,
  projectEgressPut,
  projectEgressVersions,
  workspaceEgressDelete,
  workspaceEgressDenials,
  workspaceEgressGet,
  workspaceEgressPut,
  workspaceEgressVersions,
} from '../../contract/routes/app/egress.ts'
import {
  workspacesCancelSuspendWhenIdle,
  workspacesClose,
  workspacesFork,
  workspacesForkTree,
  workspacesResume,
  workspacesSuspend,
  workspacesSuspendWhenIdle,
} from '../../contract/routes/app/lifecycle.ts'
import {
  apiKeysCreate,
  apiKeysDelete,
  apiKeysGet,
  apiKeysList,
  apiKeysUpdate,
  invitationsAccept,
  invitationsCreate,
  invitationsDelete,
  invitationsList,
  invitationsResend,
  membersDelete,
  membersList,
  membersUpdate,
  organizationsCreate,
  organizationsUpdate,
  projectsCreate,
  projectsUpdate,
} from '../../contract/routes/app/members.ts'
import { accountDelete, organizationsDelete } from '../../contract/routes/app/deletions.ts'
import { feedbackCreate } from '../../contract/routes/app/feedback.ts'
import { openapiGet } from '../../contract/routes/app/openapi.ts'
import { operationsGet, operationsList } from '../../contract/routes/app/operations.ts'
import { clientVersions, me, organizationsGet, organizationsList, projectsGet, projectsList } from '../../contract/routes/app/principals.ts'
import {
  portCallbacksCreate,
  portCallbacksDelete,
  portLinksCreate,
  portsClose,
  portsExpose,
  portsGet,
  portsList,
  portTokensCreate,
} from '../../contract/routes/app/ports.ts'
import {
  secretsCreate,
  secretsCreateOfOrganization,
  secretsDelete,
  secretsGet,
  secretsList,
  secretsListOfOrganization,
  secretsUpdate,
  secretVersionsCreate,
  secretVersionsList,
  workspacesSecrets,
  workspacesSetSecrets,
} from '../../contract/routes/app/secrets.ts'
import {
  templateBuildsCancel,
  templateBuildsCreate,
  templateBuildsCreateOfOrganization,
  templateBuildsGet,
  templateBuildsLog,
  workspacesSaveAsTemplate,
} from '../../contract/routes/app/template-builds.ts'
import {
  templatesList,
  templatesListOfOrganization,
  templatesGet,
  templatesGetOfOrganization,
  templateVersionsList,
  templateVersionsListOfOrganization,
  templateVersionsGet,
  templateVersionsGetOfOrganization,
  templateVersionsPublish,
  templateVersionsPublishOfOrganization,
  templateVersionsArchive,
  templateVersionsArchiveOfOrganization,
} from '../../contract/routes/app/templates.ts'
import { testInstancesCreate, testInstancesCreateOfOrganization } from '../../contract/routes/app/test-instances.ts'
import { agentSessionsList, toolTokenKeys, toolTokensCreate } from '../../contract/routes/app/tool-tokens.ts'
import { usageOfWorkspace, usageSeries, usageSummary } from '../../contract/routes/app/usage.ts'
import {
  attachmentsCreate,
  attachmentsDelete,
  attachmentsList,
  volumesCreate,
  volumesDelete,
  volumesGet,
  volumesList,
} from '../../contract/routes/app/volumes.ts'
import {
  workspacesDelete,
  workspacesGet,
  workspacesIdlePolicy,
  workspacesInputs,
  workspacesList,
  workspacesListOfOrganization,
  workspacesOpen,
} from '../../contract/routes/app/workspaces.ts'
import { bind, type Bound, type Call, type Reply } from '../http/call.ts'
import { deleteAccount } from './lifecycle/account/delete.ts'
import { createApiKey } from './access/api-keys/create.ts'
import { getApiKey, listApiKeysOfProject } from './access/api-keys/get.ts'
import { revokeApiKey, updateApiKey } from './access/api-keys/update.ts'
import { attachVolume } from './workspaces/attachments/create.ts'
import { detachVolume } from './workspaces/attachments/delete.ts'
import { listAttachmentsOfWorkspace } from './workspaces/attachments/list.ts'
import { exportAuditEvents } from './records/audit/export.ts'
import { listAuditEvents } from './records/audit/list.ts'
import { challenge } from './access/auth/challenge.ts'
import { changeEmail, confirmEmail } from './access/auth/email-change.ts'
import { logIn } from './access/auth/login.ts'
import { changePassword, confirmReset, requestReset, stepUp } from './access/auth/password.ts'
import { register, resendVerification, verifyEmail } from './access/auth/register.ts'
import { confirmTotp, disableTotp, getRecoveryCodes, issueRecoveryCodes, startTotp } from './access/auth/second-factor.ts'
import { endSession, getSession, listOwnSessions, logOut, logOutEverywhere } from './access/auth/sessions.ts'
import { deleteCheckpoint } from './workspaces/checkpoints/delete.ts'
import { listCheckpointsOfWorkspace } from './workspaces/checkpoints/list.ts'
import { resetWorkspace } from './workspaces/checkpoints/reset.ts'
import { adoptFork } from './workspaces/checkpoints/adopt.ts'
import { restoreWorkspace } from './workspaces/checkpoints/restore.ts'
import { snapshotWorkspace } from './workspaces/checkpoints/snapshot.ts'
import type { ApiDeps } from './deps.ts'
import { getProjectEgress, listProjectEgress, putProjectEgress } from './workspaces/egress/project.ts'
import {
  clearWorkspaceEgress,
  getWorkspaceEgress,
  listWorkspaceDenials,
  listWorkspaceEgress,
  putWorkspaceEgress,
} from './workspaces/egress/workspace.ts'
import { createFeedback } from './records/feedback/create.ts'
import type { WaitPermit } from './calls/held-places.ts'
import type { Changed } from './calls/idempotency/change.ts'
import { acceptInvitation } from './access/invitations/accept.ts'
import { createInvitation } from './access/invitations/create.ts'
import { listInvitationsOfOrganization } from './access/invitations/list.ts'
import { deleteInvitation, resendInvitation } from './access/invitations/resend.ts'
import { deleteMember } from './access/members/delete.ts'
import { listMembersOfOrganization } from './access/members/list.ts'
import { updateMember } from './access/members/update.ts'
import { getOperation } from './workspaces/operations/get.ts'
import { listOperationsOfWorkspace } from './workspaces/operations/list.ts'
import { createOrganization } from './lifecycle/organizations/create.ts'
import { deleteOrganization } from './lifecycle/organizations/delete.ts'
import { getOrganization } from './lifecycle/organizations/get.ts'
import { listOwnOrganizations } from './lifecycle/organizations/list.ts'
import { closePort } from './workspaces/ports/close.ts'
import { createPortCallback, createPortLink, createPortToken, deletePortCallback } from './workspaces/ports/credentials.ts'
import { exposePort } from './workspaces/ports/expose.ts'
import { getPort, listPortsOfWorkspace } from './workspaces/ports/list.ts'
import { renameOrganization } from './lifecycle/organizations/update.ts'
import { getClientVersions } from './access/principals/client-versions.ts'
import { getMe } from './access/principals/me.ts'
import { createProject, updateProject } from './access/projects/create.ts'
import { getProject } from './access/projects/get.ts'
import { listProjectsOfOrganization } from './access/projects/list.ts'
import { getSecretsOfWorkspace, setSecretsOfWorkspace } from './workspaces/secrets/bindings.ts'
import { createSecret, createSecretOfOrganization } from './workspaces/secrets/create.ts'
import { deleteSecret } from './workspaces/secrets/delete.ts'
import { getSecret } from './workspaces/secrets/get.ts'
import { listSecretsOfOrganization, listSecretsOfProject, listVersionsOfSecret } from './workspaces/secrets/list.ts'
import { rotateSecret } from './workspaces/secrets/rotate.ts'
import { updateSecret } from './workspaces/secrets/update.ts'
import { EXPORT_BOUND } from './records/exports/routes.ts'
import { TEMPLATE_SOURCE_ROUTES } from './templates/uploads/routes.ts'
import { archiveVersion, publishVersion } from './templates/publish.ts'
import { DRAFT_ANSWERS, DRAFT_BOUND } from './templates/drafts/routes.ts'
import { TEMPLATE_FILE_ROUTES } from './templates/files/routes.ts'
import { saveAsTemplate } from './templates/builds/save-as-template.ts'
import { createBuild } from './templates/builds/create.ts'
import { cancelBuild } from './templates/builds/cancel.ts'
import { getBuild } from './templates/builds/get.ts'
import { readBuildLog } from './templates/builds/log.ts'
import { answerTestInstance, openTestInstance } from './templates/test-instance.ts'
import { getTemplate, getVersion, listAllTemplates, listTemplatesOfOrganization, listVersionsOfTemplate } from './templates/read.ts'
import { createToolToken } from './workspaces/tool-tokens/create.ts'
import { getToolTokenKeys } from './workspaces/tool-tokens/keys.ts'
import { listAgentSessionsOfWorkspace } from './workspaces/tool-tokens/list-agent-sessions.ts'
import { getUsageOfOrganization, getUsageOfWorkspace } from './money/usage/series.ts'
import { getUsageSummary } from './money/usage/summary.ts'
import { createVolume } from './workspaces/volumes/create.ts'
import { deleteVolume } from './workspaces/volumes/delete.ts'
import { getVolume } from './workspaces/volumes/get.ts'
import { listVolumesOfProject } from './workspaces/volumes/list.ts'
import { closeWorkspace, deleteWorkspace } from './workspaces/delete.ts'
import { forkWorkspace } from './workspaces/fork.ts'
import { forkTree } from './workspaces/fork-tree.ts'
import { getInputs, getWorkspace } from './workspaces/get.ts'
import { setIdlePolicy } from './workspaces/idle-policy.ts'
import { listWorkspaces, listWorkspacesOfOrganization } from './workspaces/list.ts'
import { answerOpen, openWorkspace } from './workspaces/open.ts'
import { answerResume, resumeWorkspace } from './workspaces/resume.ts'
import { cancelSuspendWhenIdle, requestSuspendWhenIdle } from './workspaces/suspend-when-idle.ts'
import { MONEY_BOUND } from './money/routes.ts'
import { suspendWorkspace } from './workspaces/suspend.ts'

export const API_ROUTES: readonly Bound<ApiDeps, WaitPermit>[] = [
  bind(clientVersions, getClientVersions),
  bind(me, getMe),
  bind(organizationsList, listOwnOrganizations),
  bind(organizationsGet, getOrganization),
  bind(projectsList, listProjectsOfOrganization),
  bind(projectsGet, getProject),
  bind(workspacesOpen, openWorkspace),
  bind(workspacesList, listWorkspaces),
  bind(workspacesListOfOrganization, listWorkspacesOfOrganization),
  bind(workspacesGet, getWorkspace),
  bind(workspacesDelete, deleteWorkspace),
  bind(workspacesInputs, getInputs),
  bind(workspacesIdlePolicy, setIdlePolicy),
  bind(workspacesSuspend, suspendWorkspace),
  bind(workspacesResume, resumeWorkspace),
  bind(workspacesFork, forkWorkspace),
  bind(workspacesForkTree, forkTree),
  bind(workspacesClose, closeWorkspace),
  bind(workspacesSuspendWhenIdle, requestSuspendWhenIdle),
  bind(workspacesCancelSuspendWhenIdle, cancelSuspendWhenIdle),
  bind(workspacesSnapshot, snapshotWorkspace),
  bind(checkpointsList, listCheckpointsOfWorkspace),
  bind(checkpointsDelete, deleteCheckpoint),
  bind(workspacesRestore, restoreWorkspace),
  bind(workspacesAdopt, adoptFork),
  bind(workspacesReset, resetWorkspace),
  bind(workspacesSecrets, getSecretsOfWorkspace),
  bind(workspacesSetSecrets, setSecretsOfWorkspace),
  bind(secretsList, listSecretsOfProject),
  bind(secretsCreate, createSecret),
  bind(secretsListOfOrganization, listSecretsOfOrganization),
  bind(secretsCreateOfOrganization, createSecretOfOrganization),
  bind(secretsGet, getSecret),
  bind(secretsUpdate, updateSecret),
  bind(secretsDelete, deleteSecret),
  bind(secretVersionsList, listVersionsOfSecret),
  bind(secretVersionsCreate, rotateSecret),
  bind(operationsGet, getOperation),
  bind(operationsList, listOperationsOfWorkspace),
  bind(toolTokensCreate, createToolToken),
  bind(agentSessionsList, listAgentSessionsOfWorkspace),
  bind(projectEgressGet, getProjectEgress),
  bind(projectEgressPut, putProjectEgress),
  bind(projectEgressVersions, listProjectEgress),
  bind(workspaceEgressGet, getWorkspaceEgress),
  bind(workspaceEgressPut, putWorkspaceEgress),
  bind(workspaceEgressDelete, clearWorkspaceEgress),
  bind(workspaceEgressVersions, listWorkspaceEgress),
  bind(workspaceEgressDenials, listWorkspaceDenials),
  bind(toolTokenKeys, getToolTokenKeys),
  bind(volumesList, listVolumesOfProject),
  bind(volumesCreate, createVolume),
  bind(volumesGet, getVolume),
  bind(volumesDelete, deleteVolume),
  bind(attachmentsList, listAttachmentsOfWorkspace),
  bind(attachmentsCreate, attachVolume),
  bind(attachmentsDelete, detachVolume),
  bind(portsList, listPortsOfWorkspace),
  bind(portsGet, getPort),
  bind(portsExpose, exposePort),
  bind(portsClose, closePort),
  bind(portTokensCreate, createPortToken),
  bind(portLinksCreate, createPortLink),
  bind(portCallbacksCreate, createPortCallback),
  bind(portCallbacksDelete, deletePortCallback),
  bind(usageSummary, getUsageSummary),
  bind(usageSeries, getUsageOfOrganization),
  bind(usageOfWorkspace, getUsageOfWorkspace),
  ...MONEY_BOUND,
  bind(authRegister, register),
  bind(authVerifyEmail, verifyEmail),
  bind(authResend, resendVerification),
  bind(authLogin, logIn),
  bind(authChallenge, challenge),
  bind(authSession, getSession),
  bind(authLogout, logOut),
  bind(authLogoutAll, logOutEverywhere),
  bind(authSessions, listOwnSessions),
  bind(authSessionsDelete, endSession),
  bind(authStepUp, stepUp),
  bind(authPasswordChange, changePassword),
  bind(authResetRequest, requestReset),
  bind(authResetConfirm, confirmReset),
  bind(authEmailChange, changeEmail),
  bind(authEmailChangeConfirm, confirmEmail),
  bind(authTotpStart, startTotp),
  bind(authTotpConfirm, confirmTotp),
  bind(authTotpDisable, disableTotp),
  bind(authRecoveryCodes, getRecoveryCodes),
  bind(authRecoveryCodesIssue, issueRecoveryCodes),
  bind(organizationsCreate, createOrganization),
  bind(organizationsUpdate, renameOrganization),
  bind(projectsCreate, createProject),
  bind(projectsUpdate, updateProject),
  bind(membersList, listMembersOfOrganization),
  bind(membersUpdate, updateMember),
  bind(membersDelete, deleteMember),
  bind(invitationsList, listInvitationsOfOrganization),
  bind(invitationsCreate, createInvitation),
  bind(invitationsResend, resendInvitation),
  bind(invitationsDelete, deleteInvitation),
  bind(invitationsAccept, acceptInvitation),
  bind(apiKeysList, listApiKeysOfProject),
  bind(apiKeysCreate, createApiKey),
  bind(apiKeysGet, getApiKey),
  bind(apiKeysUpdate, updateApiKey),
  bind(apiKeysDelete, revokeApiKey),
  bind(accountDelete, deleteAccount),
  bind(organizationsDelete, deleteOrganization),
  ...EXPORT_BOUND,
  bind(feedbackCreate, createFeedback),
  bind(auditList, listAuditEvents),
  bind(auditExport, exportAuditEvents),
  bind(templatesList, listAllTemplates),
  bind(templatesListOfOrganization, listTemplatesOfOrganization),
  bind(templatesGet, getTemplate),
  bind(templatesGetOfOrganization, getTemplate),
  bind(templateVersionsList, listVersionsOfTemplate),
  bind(templateVersionsListOfOrganization, listVersionsOfTemplate),
  bind(templateVersionsGet, getVersion),
  bind(templateVersionsGetOfOrganization, getVersion),
  bind(templateVersionsPublish, publishVersion),
  bind(templateVersionsPublishOfOrganization, publishVersion),
  bind(templateVersionsArchive, archiveVersion),
  bind(templateVersionsArchiveOfOrganization, archiveVersion),
  bind(workspacesSaveAsTemplate, saveAsTemplate),
  bind(templateBuildsCreate, createBuild),
  bind(templateBuildsCreateOfOrganization, createBuild),
  bind(templateBuildsGet, getBuild),
  bind(templateBuildsLog, readBuildLog),
  bind(templateBuildsCancel, cancelBuild),
  bind(testInstancesCreate, openTestInstance),
  bind(testInstancesCreateOfOrganization, openTestInstance),
  ...TEMPLATE_SOURCE_ROUTES,
  ...DRAFT_BOUND,
  ...TEMPLATE_FILE_ROUTES,
  bind(openapiGet, async (_call, deps: ApiDeps) => ({
    status: 200,
    body: deps.openapi(),
    headers: { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'public, max-age=300' },
  })),
]

type Answer<C> = (call: C, deps: ApiDeps, outcome: Changed) => Promise<Reply>

/**
 * Handlers that repeat an answer with a token: they rebuild it from the current state with a new token. All other repeats get the stored
 * body.
 */
export const ANSWERS: Readonly<Record<string, Answer<never>>> = {
  [workspacesOpen.id]: answerOpen satisfies Answer<Call<typeof workspacesOpen>>,
  [testInstancesCreate.id]: answerTestInstance satisfies Answer<Call<typeof testInstancesCreate>>,
  [testInstancesCreateOfOrganization.id]: answerTestInstance satisfies Answer<Call<typeof testInstancesCreateOfOrganization>>,
  ...DRAFT_ANSWERS,
  [workspacesResume.id]: answerResume satisfies Answer<Call<typeof workspacesResume>>,
}
