import Type from 'typebox'
import { operators, readers } from '../../access.ts'
import { NO_REASON } from '../../errors.ts'
import { appRoute } from '../../route.ts'
import { AdoptRequest, CheckpointList, ResetRequest, RestoreRequest, SnapshotRequest } from '../../schemas/checkpoints.ts'
import { PageQuery, Uuid } from '../../schemas/common.ts'
import { Operation } from '../../schemas/operations.ts'
import { workspaceParams } from './workspaces.ts'

export const checkpointsList = appRoute({
  id: 'checkpoints.list',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/checkpoints',
  summary: 'The checkpoints that the workspace can be restored to, newest first',
  access: readers('workspace'),
  params: workspaceParams,
  query: Type.Object(PageQuery),
  answers: { 200: { schema: CheckpointList, description: 'A page' } },
  errors: { not_found: NO_REASON },
})

export const checkpointsDelete = appRoute({
  id: 'checkpoints.delete',
  method: 'DELETE',
  path: '/v1/workspaces/{workspace_id}/checkpoints/{checkpoint_id}',
  summary: 'Give a checkpoint and its room up for good; not the one that the workspace would resume from',
  access: operators('workspace'),
  params: Type.Object({ ...workspaceParams.properties, checkpoint_id: Uuid() }),
  answers: { 204: { description: 'It cannot be restored any more, and its room comes back soon; repeating says the same' } },
  errors: {
    not_found: [null, 'checkpoint_not_found'],
    forbidden: NO_REASON,
    conflict: ['workspace_deleted', 'not_supported_for_mode', 'operation_in_progress', 'not_running'],
  },
})

export const workspacesSnapshot = appRoute({
  id: 'workspaces.snapshot',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/snapshot',
  summary: 'Keep memory, processes and disk as they are now; a running workspace runs on',
  access: operators('workspace'),
  idempotent: true,
  params: workspaceParams,
  body: SnapshotRequest,
  body_optional: true,
  answers: { 202: { schema: Operation, description: 'The snapshot operation; its result carries checkpoint_id' } },
  errors: {
    not_found: NO_REASON,
    forbidden: NO_REASON,
    quota_exceeded: NO_REASON,
    conflict: ['workspace_deleted', 'not_supported_for_mode', 'operation_in_progress', 'not_snapshottable'],
  },
})

export const workspacesRestore = appRoute({
  id: 'workspaces.restore',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/restore',
  summary:
    'Put a checkpoint back in place: running restarts there, suspended stays suspended, failed becomes suspended; what was there is kept for 7 days',
  access: operators('workspace'),
  idempotent: true,
  params: workspaceParams,
  body: RestoreRequest,
  answers: { 202: { schema: Operation, description: 'The restore operation; its result carries recovery_checkpoint_id' } },
  errors: {
    not_found: [null, 'checkpoint_not_found'],
    forbidden: NO_REASON,
    conflict: ['workspace_deleted', 'not_supported_for_mode', 'operation_in_progress', 'not_running'],
  },
})

export const workspacesAdopt = appRoute({
  id: 'workspaces.adopt',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/adopt',
  summary: "Go on from the memory and disk of a fork, under the workspace's own id, key and settings; what was there is kept for 7 days",
  access: operators('workspace'),
  idempotent: true,
  params: workspaceParams,
  body: AdoptRequest,
  answers: {
    202: {
      schema: Operation,
      description:
        'The adopt operation; its result carries recovery_checkpoint_id. Running restarts there, suspended stays suspended, failed becomes suspended',
    },
  },
  errors: {
    not_found: NO_REASON,
    forbidden: NO_REASON,
    conflict: ['workspace_deleted', 'not_supported_for_mode', 'operation_in_progress', 'not_running', 'not_forkable', 'not_snapshottable'],
  },
})

export const workspacesReset = appRoute({
  id: 'workspaces.reset',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/reset',
  summary: 'Wipe every change of a layered workspace; what was there is restorable for 7 days',
  access: operators('workspace'),
  idempotent: true,
  params: workspaceParams,
  body: ResetRequest,
  body_optional: true,
  answers: { 202: { schema: Operation, description: 'The reset operation; its result carries recovery_checkpoint_id' } },
  errors: {
    not_found: NO_REASON,
    forbidden: NO_REASON,
    conflict: ['workspace_deleted', 'not_supported_for_mode', 'legacy_disk_layout', 'operation_in_progress', 'not_resettable'],
    validation_failed: ['confirm_destructive_required'],
  },
})
