import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { FreeText, List, Nullable, ResourcesView, strict, Timestamp, Uuid, Enum } from './common.ts'

/** `recovery`: made before a reset, a restore in place or an adoption. `fork` includes adoptions. */
export const CHECKPOINT_KINDS = ['suspend', 'fork', 'snapshot', 'recovery'] as const

export const Checkpoint = Type.Object(
  {
    id: Uuid(),
    workspace_id: Uuid(),
    operation_id: Uuid('The operation that wrote it'),
    kind: Enum(CHECKPOINT_KINDS, {
      description:
        'snapshot: kept until it or the workspace is deleted; recovery: kept until expires_at; suspend and fork: kept until the next suspend or adoption',
    }),
    label: Nullable(Type.String()),
    memory: Type.Boolean({ description: 'false: it is of a disk alone, and a machine of it starts from that' }),
    size_bytes: Type.Integer({ description: 'Stored bytes of its memory image' }),
    disk_bytes: Nullable(
      Type.Integer({
        description:
          'Bytes of files on its disk. What the workspace has deleted or changed since, only the checkpoint still keeps; the rest is shared. null: not known',
      }),
    ),
    resources: ResourcesView,
    created_at: Timestamp(),
    expires_at: Nullable(Timestamp('null: it does not expire')),
  },
  { title: 'Checkpoint' },
)
export type Checkpoint = Static<typeof Checkpoint>
export const CheckpointList = List(Checkpoint, 'CheckpointList')

export const SnapshotRequest = Type.Object(
  { label: Type.Optional(FreeText({ minLength: 0, maxLength: LIMITS.workspace.label_characters_max, description: 'For people' })) },
  { ...strict, title: 'SnapshotRequest' },
)
export const RestoreRequest = Type.Object(
  {
    checkpoint_id: Uuid('A checkpoint of this workspace'),
    memory: Type.Optional(
      Type.Boolean({
        description:
          'false: only its disk is put back, and the workspace starts from it as after a loss of power. The checkpoint keeps its memory. ' +
          'With it a hibernated workspace may also name the checkpoint that a failed wake names. Default true',
      }),
    ),
  },
  { ...strict, title: 'RestoreRequest' },
)
export const AdoptRequest = Type.Object(
  {
    fork_workspace_id: Uuid(
      'A relative of this workspace: both go back to one workspace by forks, over any number of them and in either direction',
    ),
    delete_fork: Type.Optional(
      Type.Boolean({ description: 'true: it is deleted once the adoption has succeeded, and its key can be used again. Default false' }),
    ),
  },
  { ...strict, title: 'AdoptRequest' },
)
export const ResetRequest = Type.Object(
  { confirm_destructive: Type.Optional(Type.Boolean({ description: 'Must be true: every change is wiped' })) },
  { ...strict, title: 'ResetRequest' },
)
