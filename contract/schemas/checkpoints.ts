import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { FreeText, List, Nullable, ResourcesView, strict, Timestamp, Uuid, Word } from './common.ts'

/** What a checkpoint was written for: a suspend or a fork, by request, or before a reset or a restore in place. */
export const CHECKPOINT_KINDS = ['suspend', 'fork', 'snapshot', 'recovery'] as const

export const Checkpoint = Type.Object(
  {
    id: Uuid(),
    workspace_id: Uuid(),
    operation_id: Uuid('The operation that wrote it'),
    kind: Word(CHECKPOINT_KINDS, {
      description:
        'snapshot: kept until the workspace is deleted; recovery: kept until expires_at; suspend and fork: kept until the next suspend',
    }),
    label: Nullable(Type.String()),
    size_bytes: Type.Integer({ description: 'Stored bytes of its memory image' }),
    resources: ResourcesView,
    created_at: Timestamp(),
    expires_at: Nullable(Timestamp('null: it does not expire')),
  },
  { title: 'Checkpoint' },
)
export type Checkpoint = Static<typeof Checkpoint>
export const CheckpointList = List(Checkpoint, 'CheckpointList')

export const SnapshotRequest = Type.Object(
  { label: Type.Optional(FreeText({ minLength: 0, maxLength: LIMITS.label_characters_max, description: 'For people' })) },
  { ...strict, title: 'SnapshotRequest' },
)
export const RestoreRequest = Type.Object({ checkpoint_id: Uuid('A checkpoint of this workspace') }, { ...strict, title: 'RestoreRequest' })
export const ResetRequest = Type.Object(
  { confirm_destructive: Type.Optional(Type.Boolean({ description: 'Must be true: every change is wiped' })) },
  { ...strict, title: 'ResetRequest' },
)
