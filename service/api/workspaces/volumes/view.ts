import type { Volume, VolumeAttachment } from '../../../../contract/schemas/volumes.ts'
import type { Principal } from '../../../http/call.ts'
import { maySee } from '../../calls/scope.ts'
import type { AttachedRow, VolumeRow } from './store.ts'

/** Hides attachments of other projects from an API key. */
export function volumeView(who: Principal, row: VolumeRow): Volume {
  const { cell_id: _cell_id, attachments, created_at, updated_at, deleted_at, ...fields } = row
  return {
    ...fields,
    attachments: visibleAttachments(who, row).map((attached) => attachmentOf(row.id, attached)),
    created_at: created_at.toISOString(),
    updated_at: updated_at.toISOString(),
    deleted_at: deleted_at?.toISOString() ?? null,
  }
}

export function visibleAttachments(who: Principal, { organization_id, attachments }: VolumeRow): AttachedRow[] {
  return attachments.filter(({ project_id }) => maySee(who, { organization_id, project_id }))
}

function attachmentOf(volume_id: string, { project_id: _project_id, created_at, updated_at, ...fields }: AttachedRow): VolumeAttachment {
  return { volume_id, ...fields, created_at: new Date(created_at).toISOString(), updated_at: new Date(updated_at).toISOString() }
}
