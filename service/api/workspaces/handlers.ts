import { adoptFork } from './checkpoints/adopt.ts'
import { answerOpen, openWorkspace } from './open.ts'
import { answerResume, resumeWorkspace } from './resume.ts'
import { attachVolume } from './attachments/create.ts'
import { cancelSuspendWhenIdle, requestSuspendWhenIdle } from './suspend-when-idle.ts'
import {
  clearWorkspaceEgress,
  getWorkspaceEgress,
  listWorkspaceDenials,
  listWorkspaceEgress,
  putWorkspaceEgress,
} from './egress/workspace.ts'
import { closePort } from './ports/close.ts'
import { closeWorkspace, deleteWorkspace } from './delete.ts'
import { createPortCallback, createPortLink, createPortToken, deletePortCallback } from './ports/credentials.ts'
import { createSecret, createSecretOfOrganization } from './secrets/create.ts'
import { createToolToken } from './tool-tokens/create.ts'
import { createVolume } from './volumes/create.ts'
import { deleteCheckpoint } from './checkpoints/delete.ts'
import { deleteSecret } from './secrets/delete.ts'
import { deleteVolume } from './volumes/delete.ts'
import { detachVolume } from './attachments/delete.ts'
import { exposePort } from './ports/expose.ts'
import { forkTree } from './fork-tree.ts'
import { forkWorkspace } from './fork.ts'
import { getInputs, getWorkspace } from './get.ts'
import { getOperation } from './operations/get.ts'
import { getPort, listPortsOfWorkspace } from './ports/list.ts'
import { getProjectEgress, listProjectEgress, putProjectEgress } from './egress/project.ts'
import { getSecret } from './secrets/get.ts'
import { getSecretsOfWorkspace, setSecretsOfWorkspace } from './secrets/bindings.ts'
import { getToolTokenKeys } from './tool-tokens/keys.ts'
import { getVolume } from './volumes/get.ts'
import { listAgentSessionsOfWorkspace } from './tool-tokens/list-agent-sessions.ts'
import { listAttachmentsOfWorkspace } from './attachments/list.ts'
import { listCheckpointsOfWorkspace } from './checkpoints/list.ts'
import { listOperationsOfWorkspace } from './operations/list.ts'
import { listSecretsOfOrganization, listSecretsOfProject, listVersionsOfSecret } from './secrets/list.ts'
import { listVolumesOfProject } from './volumes/list.ts'
import { listWorkspaces, listWorkspacesOfOrganization } from './list.ts'
import { resetWorkspace } from './checkpoints/reset.ts'
import { restoreWorkspace } from './checkpoints/restore.ts'
import { rotateSecret } from './secrets/rotate.ts'
import { setIdlePolicy } from './idle-policy.ts'
import { snapshotWorkspace } from './checkpoints/snapshot.ts'
import { suspendWorkspace } from './suspend.ts'
import { updateSecret } from './secrets/update.ts'

export const WORKSPACES_HANDLERS = {
  'workspaces.open': openWorkspace,
  'workspaces.list': listWorkspaces,
  'workspaces.list_of_organization': listWorkspacesOfOrganization,
  'workspaces.get': getWorkspace,
  'workspaces.delete': deleteWorkspace,
  'workspaces.inputs': getInputs,
  'workspaces.idle_policy': setIdlePolicy,
  'workspaces.suspend': suspendWorkspace,
  'workspaces.resume': resumeWorkspace,
  'workspaces.fork': forkWorkspace,
  'workspaces.fork_tree': forkTree,
  'workspaces.close': closeWorkspace,
  'workspaces.suspend_when_idle': requestSuspendWhenIdle,
  'workspaces.cancel_suspend_when_idle': cancelSuspendWhenIdle,
  'workspaces.snapshot': snapshotWorkspace,
  'checkpoints.list': listCheckpointsOfWorkspace,
  'checkpoints.delete': deleteCheckpoint,
  'workspaces.restore': restoreWorkspace,
  'workspaces.adopt': adoptFork,
  'workspaces.reset': resetWorkspace,
  'workspaces.secrets': getSecretsOfWorkspace,
  'workspaces.set_secrets': setSecretsOfWorkspace,
  'secrets.list': listSecretsOfProject,
  'secrets.create': createSecret,
  'secrets.list_of_organization': listSecretsOfOrganization,
  'secrets.create_of_organization': createSecretOfOrganization,
  'secrets.get': getSecret,
  'secrets.update': updateSecret,
  'secrets.delete': deleteSecret,
  'secret-versions.list': listVersionsOfSecret,
  'secret-versions.create': rotateSecret,
  'operations.get': getOperation,
  'operations.list': listOperationsOfWorkspace,
  'tool-tokens.create': createToolToken,
  'agent-sessions.list': listAgentSessionsOfWorkspace,
  'egress.project_get': getProjectEgress,
  'egress.project_put': putProjectEgress,
  'egress.project_versions': listProjectEgress,
  'egress.workspace_get': getWorkspaceEgress,
  'egress.workspace_put': putWorkspaceEgress,
  'egress.workspace_delete': clearWorkspaceEgress,
  'egress.workspace_versions': listWorkspaceEgress,
  'egress.workspace_denials': listWorkspaceDenials,
  'tool-tokens.keys': getToolTokenKeys,
  'volumes.list': listVolumesOfProject,
  'volumes.create': createVolume,
  'volumes.get': getVolume,
  'volumes.delete': deleteVolume,
  'attachments.list': listAttachmentsOfWorkspace,
  'attachments.create': attachVolume,
  'attachments.delete': detachVolume,
  'ports.list': listPortsOfWorkspace,
  'ports.get': getPort,
  'ports.expose': exposePort,
  'ports.close': closePort,
  'port-tokens.create': createPortToken,
  'port-links.create': createPortLink,
  'port-callbacks.create': createPortCallback,
  'port-callbacks.delete': deletePortCallback,
}

/** A repeat whose answer has a token is answered from the current state. */
export const WORKSPACES_ANSWERS = {
  'workspaces.open': answerOpen,
  'workspaces.resume': answerResume,
}
