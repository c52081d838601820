import Type from 'typebox'
import { appRoute } from '../../route.ts'
import { CheckpointList, ResetRequest, RestoreRequest, SnapshotRequest } from '../../schemas/checkpoints.ts'
import { PageQuery } from '../../schemas/common.ts'
import { Operation } from '../../schemas/operations.ts'
import { workspaceParams } from './workspaces.ts'

export const checkpointsList = appRoute({
  id: 'checkpoints.list',
  method: 'GET',
  path: '/v1/workspaces/{workspace_id}/checkpoints',
  summary: 'The checkpoints that the workspace can be restored to, newest first',
  auth: 'principal',
  params: workspaceParams,
  query: Type.Object(PageQuery),
  answers: { 200: { schema: CheckpointList, description: 'A page' } },
  errors: { not_found: [] },
})

export const workspacesSnapshot = appRoute({
  id: 'workspaces.snapshot',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/snapshot',
  summary: 'Keep memory, processes and disk as they are now; a running workspace runs on',
  auth: 'principal',
  idempotent: true,
  params: workspaceParams,
  body: SnapshotRequest,
  body_optional: true,
  answers: { 202: { schema: Operation, description: 'The snapshot operation; its result carries checkpoint_id' } },
  errors: {
    not_found: [],
    forbidden: [],
    quota_exceeded: [],
    conflict: ['workspace_deleted', 'not_supported_for_mode', 'operation_in_progress', 'not_snapshottable'],
  },
})

export const workspacesRestore = appRoute({
  id: 'workspaces.restore',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/restore',
  summary: 'Put a checkpoint back in place: running restarts there, suspended stays suspended; what was there is kept for 7 days',
  auth: 'principal',
  idempotent: true,
  params: workspaceParams,
  body: RestoreRequest,
  answers: { 202: { schema: Operation, description: 'The restore operation; its result carries recovery_checkpoint_id' } },
  errors: {
    not_found: [null, 'checkpoint_not_found'],
    forbidden: [],
    conflict: ['workspace_deleted', 'not_supported_for_mode', 'operation_in_progress', 'not_running'],
  },
})

export const workspacesReset = appRoute({
  id: 'workspaces.reset',
  method: 'POST',
  path: '/v1/workspaces/{workspace_id}/reset',
  summary: 'Wipe every change of a layered workspace; what was there is restorable for 7 days',
  auth: 'principal',
  idempotent: true,
  params: workspaceParams,
  body: ResetRequest,
  body_optional: true,
  answers: { 202: { schema: Operation, description: 'The reset operation; its result carries recovery_checkpoint_id' } },
  errors: {
    not_found: [],
    forbidden: [],
    conflict: ['workspace_deleted', 'not_supported_for_mode', 'legacy_disk_layout', 'operation_in_progress', 'not_resettable'],
    validation_failed: ['confirm_destructive_required'],
  },
})
