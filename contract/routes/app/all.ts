import type { AppRoute } from '../../route.ts'
import { checkpointsDelete, checkpointsList, workspacesReset, workspacesRestore, workspacesSnapshot } from './checkpoints.ts'
import {
  projectEgressGet,
  projectEgressPut,
  projectEgressVersions,
  workspaceEgressDelete,
  workspaceEgressDenials,
  workspaceEgressGet,
  workspaceEgressPut,
  workspaceEgressVersions,
} from './egress.ts'
import {
  workspacesCancelSuspendWhenIdle,
  workspacesClose,
  workspacesFork,
  workspacesResume,
  workspacesSuspend,
  workspacesSuspendWhenIdle,
} from './lifecycle.ts'
import { openapiGet } from './openapi.ts'
import { operationsGet, operationsList } from './operations.ts'
import { clientVersions, me, organizationsGet, organizationsList, projectsGet, projectsList } from './principals.ts'
import { agentSessionsList, toolTokenKeys, toolTokensCreate } from './tool-tokens.ts'
import {
  workspacesDelete,
  workspacesGet,
  workspacesIdlePolicy,
  workspacesInputs,
  workspacesList,
  workspacesListOfOrganization,
  workspacesOpen,
} from './workspaces.ts'

/** Every route of the application API. */
export const APP_ROUTES: readonly AppRoute[] = [
  clientVersions,
  me,
  organizationsList,
  organizationsGet,
  projectsList,
  projectsGet,
  workspacesOpen,
  workspacesList,
  workspacesListOfOrganization,
  workspacesGet,
  workspacesDelete,
  workspacesInputs,
  workspacesIdlePolicy,
  workspacesSuspend,
  workspacesResume,
  workspacesFork,
  workspacesClose,
  workspacesSuspendWhenIdle,
  workspacesCancelSuspendWhenIdle,
  workspacesSnapshot,
  checkpointsList,
  checkpointsDelete,
  workspacesRestore,
  workspacesReset,
  operationsGet,
  operationsList,
  toolTokensCreate,
  agentSessionsList,
  projectEgressGet,
  projectEgressPut,
  projectEgressVersions,
  workspaceEgressGet,
  workspaceEgressPut,
  workspaceEgressDelete,
  workspaceEgressVersions,
  workspaceEgressDenials,
  toolTokenKeys,
  openapiGet,
]
