/** See the specification (App, "Volume") and docs/decisions/volumes.md. */
export const VOLUME_STATES = ['creating', 'available', 'deleting', 'deleted', 'failed'] as const
export type VolumeState = (typeof VOLUME_STATES)[number]

export const ATTACHMENT_STATES = ['attaching', 'attached', 'detaching'] as const
export type AttachmentState = (typeof ATTACHMENT_STATES)[number]

export const ATTACHMENT_MODES = ['read_write', 'read_only'] as const
export type AttachmentMode = (typeof ATTACHMENT_MODES)[number]
