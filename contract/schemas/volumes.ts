import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { ATTACHMENT_MODES, ATTACHMENT_STATES, VOLUME_STATES } from '../states/volume.ts'
import { List, Nullable, PageQuery, strict, Text, Timestamp, Uuid, Enum } from './common.ts'
import { Operation } from './operations.ts'

/** See the specification (App, "Volume"). */
export const VolumeAttachment = Type.Object(
  {
    volume_id: Uuid(),
    workspace_id: Uuid(),
    mount_path: Type.String(),
    mode: Enum(ATTACHMENT_MODES),
    state: Enum(ATTACHMENT_STATES, { description: 'attached: the workspace has it, or has it as soon as it runs' }),
    created_at: Timestamp(),
    updated_at: Timestamp(),
  },
  { title: 'VolumeAttachment' },
)
export type VolumeAttachment = Static<typeof VolumeAttachment>
export const VolumeAttachmentList = List(VolumeAttachment, 'VolumeAttachmentList')

export const Volume = Type.Object(
  {
    id: Uuid(),
    organization_id: Uuid(),
    project_id: Uuid('The project that it belongs to'),
    name: Type.String(),
    quota_gib: Type.Integer({ description: "What it may hold, the file system's own records among it" }),
    org_shared: Type.Boolean({ description: 'Workspaces of every project of the organization can have it' }),
    state: Enum(VOLUME_STATES),
    attachments: Type.Array(VolumeAttachment, { description: 'Those to workspaces that you may know of' }),
    created_at: Timestamp(),
    updated_at: Timestamp(),
    deleted_at: Nullable(Timestamp('When its deletion was asked for')),
  },
  { title: 'Volume' },
)
export type Volume = Static<typeof Volume>
export const VolumeList = List(Volume, 'VolumeList')

export const VolumeAndOperation = Type.Object({ volume: Volume, operation: Operation }, { title: 'VolumeAndOperation' })
export const AttachmentAndOperation = Type.Object(
  { attachment: VolumeAttachment, operation: Operation },
  { title: 'VolumeAttachmentAndOperation' },
)

export const VolumeQuery = Type.Object({
  ...PageQuery,
  include_org_shared: Type.Optional(Type.Boolean({ description: 'Those of other projects that are shared, too. Default false' })),
  include_deleted: Type.Optional(Type.Boolean({ description: 'Those whose deletion was asked for, too. Default false' })),
})

export const VolumeCreateRequest = Type.Object(
  {
    name: Text({
      minLength: 1,
      maxLength: LIMITS.volume.name_characters_max,
      description: 'No other volume of the project has it, but those that are deleted',
    }),
    quota_gib: Type.Integer({ minimum: 1, maximum: LIMITS.volume.quota_gib_max }),
    org_shared: Type.Optional(Type.Boolean({ description: 'Only owners and admins may say true. Default false' })),
  },
  { ...strict, title: 'VolumeCreateRequest' },
)

export const VolumeDeleteQuery = Type.Object({
  force: Type.Optional(Type.Boolean({ description: 'true: also while it is attached. What uses it in a running workspace is ended' })),
  confirm_name: Type.Optional(
    Text({ minLength: 1, maxLength: LIMITS.volume.name_characters_max, description: 'With force: the name of the volume' }),
  ),
})

export const VolumeAttachRequest = Type.Object(
  {
    volume_id: Uuid(),
    mount_path: Text({
      minLength: 1,
      maxLength: LIMITS.volume.mount_path_bytes_max,
      description: 'Where the workspace sees it: an absolute path without links, . and .., which is made where it is missing',
    }),
    mode: Type.Optional(Enum(ATTACHMENT_MODES, { description: 'Default read_write' })),
  },
  { ...strict, title: 'VolumeAttachRequest' },
)
