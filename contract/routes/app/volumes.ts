import Type from 'typebox'
import { operators, readers } from '../../access.ts'
import { NO_REASON, APP_REASONS } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { PageQuery, Uuid } from '../../schemas/common.ts'
import {
  AttachmentAndOperation,
  Volume,
  VolumeAndOperation,
  VolumeAttachmentList,
  VolumeAttachRequest,
  VolumeCreateRequest,
  VolumeDeleteQuery,
  VolumeList,
  VolumeQuery,
} from '../../schemas/volumes.ts'
import { workspaceParams } from './workspaces.ts'

const projectParams = Type.Object({ project_id: Uuid() })
const volumeParams = Type.Object({ project_id: Uuid(), volume_id: Uuid() })

export const volumesList = appRoute({
  id: 'volumes.list',
  method: 'GET',
  path: '/v1/projects/{project_id}/volumes',
  summary: 'The volumes of a project, newest first; those that are shared in its organization, too, when asked',
  access: readers('project'),
  params: projectParams,
  query: VolumeQuery,
  answers: { 200: { schema: VolumeList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const volumesCreate = appRoute({
  id: 'volumes.create',
  method: 'POST',
  path: '/v1/projects/{project_id}/volumes',
  summary: 'Make a volume: files that several workspaces have at once',
  access: operators('project'),
  idempotent: true,
  params: projectParams,
  body: VolumeCreateRequest,
  answers: { 202: { schema: VolumeAndOperation, description: 'The volume, which is being created, and its volume_create operation' } },
  errors: {
    not_found: NO_REASON,
    forbidden: NO_REASON,
    entitlement_required: APP_REASONS.entitlement_required,
    quota_exceeded: NO_REASON,
    conflict: ['name_in_use'],
  },
})

export const volumesGet = appRoute({
  id: 'volumes.get',
  method: 'GET',
  path: '/v1/projects/{project_id}/volumes/{volume_id}',
  summary: 'One volume of the project, or one that is shared in its organization',
  access: readers('project'),
  params: volumeParams,
  answers: { 200: { schema: Volume, description: 'The volume' } },
  errors: { not_found: NO_REASON },
})

export const volumesDelete = appRoute({
  id: 'volumes.delete',
  method: 'DELETE',
  path: '/v1/projects/{project_id}/volumes/{volume_id}',
  summary: 'Delete a volume of the project with everything in it',
  access: operators('project'),
  idempotent: true,
  params: volumeParams,
  query: VolumeDeleteQuery,
  answers: { 202: { schema: VolumeAndOperation, description: 'The volume and its volume_delete operation; repeating returns the same' } },
  errors: { not_found: NO_REASON, forbidden: NO_REASON, conflict: ['volume_attached', 'volume_creating'] },
})

export const attachmentsList = appRoute({
  id: 'attachments.list',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/volumes',
  summary: 'The volumes that are attached to a workspace, newest first',
  access: readers('workspace'),
  params: workspaceParams,
  query: Type.Object(PageQuery),
  answers: { 200: { schema: VolumeAttachmentList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const attachmentsCreate = appRoute({
  id: 'attachments.create',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/volumes',
  summary: 'Attach a volume to a workspace, in whatever state: a running one has it when the operation has succeeded',
  access: operators('workspace'),
  idempotent: true,
  params: workspaceParams,
  body: VolumeAttachRequest,
  answers: { 202: { schema: AttachmentAndOperation, description: 'The attachment and its volume_attach operation' } },
  errors: {
    not_found: NO_REASON,
    forbidden: NO_REASON,
    quota_exceeded: NO_REASON,
    validation_failed: ['invalid_path'],
    conflict: [
      'workspace_deleted',
      'not_supported_for_mode',
      'operation_in_progress',
      'not_running',
      'volume_creating',
      'volume_not_available',
      'volume_not_shared',
      'already_attached',
      'attach_in_progress',
      'detach_in_progress',
      'mount_path_conflict',
    ],
  },
})

export const attachmentsDelete = appRoute({
  id: 'attachments.delete',
  method: 'DELETE',
  path: '/v1/workspaces/{workspace_id}/volumes/{volume_id}',
  summary: 'Detach a volume; refused by its operation where the running workspace uses it',
  access: operators('workspace'),
  idempotent: true,
  params: Type.Object({ ...workspaceParams.properties, volume_id: Uuid() }),
  answers: { 202: { schema: AttachmentAndOperation, description: 'The attachment and its volume_detach operation' } },
  errors: {
    not_found: NO_REASON,
    forbidden: NO_REASON,
    conflict: [
      'workspace_deleted',
      'not_supported_for_mode',
      'operation_in_progress',
      'not_running',
      'attach_in_progress',
      'detach_in_progress',
    ],
  },
})
