import type { AppRoute } from '../../route.ts'
import { checkpointsDelete, checkpointsList, workspacesReset, workspacesRestore, workspacesSnapshot } from './checkpoints.ts'
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
} from './secrets.ts'
import { agentSessionsList, toolTokenKeys, toolTokensCreate } from './tool-tokens.ts'
import { attachmentsCreate, attachmentsDelete, attachmentsList, volumesCreate, volumesDelete, volumesGet, volumesList } from './volumes.ts'
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
  workspacesSecrets,
  workspacesSetSecrets,
  secretsList,
  secretsCreate,
  secretsListOfOrganization,
  secretsCreateOfOrganization,
  secretsGet,
  secretsUpdate,
  secretsDelete,
  secretVersionsList,
  secretVersionsCreate,
  operationsGet,
  operationsList,
  toolTokensCreate,
  agentSessionsList,
  toolTokenKeys,
  volumesList,
  volumesCreate,
  volumesGet,
  volumesDelete,
  attachmentsList,
  attachmentsCreate,
  attachmentsDelete,
  openapiGet,
]
