import type { VolumeAttachment } from '../../../../contract/schemas/volumes.ts'
import type { Reader } from '../../../db/reader.ts'
import { operationBody, type WorkspaceCommandResult } from '../answer-operation.ts'
import { readAttachments, type AttachmentRow } from './store.ts'

export interface AttachmentCommandResult extends WorkspaceCommandResult {
  volume_id: string
}

export async function attachmentAndOperationBody(reads: Reader, worked: AttachmentCommandResult) {
  const row = (await readAttachments(reads, worked.workspace_id)).find(({ volume_id }) => volume_id === worked.volume_id)
  if (row === undefined) throw new Error('an attachment is gone that a change has just named')
  return { attachment: attachmentView(row), operation: await operationBody(reads, worked) }
}

export function attachmentView({ id: _id, place: _place, created_at, updated_at, ...fields }: AttachmentRow): VolumeAttachment {
  return { ...fields, created_at: created_at.toISOString(), updated_at: updated_at.toISOString() }
}
