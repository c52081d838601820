import { LIMITS } from '../../../../contract/limits.ts'
import type { AttachmentMode, AttachmentState } from '../../../../contract/states/volume.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Page } from '../../calls/pages.ts'

export interface AttachmentRow {
  id: string
  workspace_id: string
  volume_id: string
  mount_path: string
  mode: AttachmentMode
  place: number
  state: AttachmentState
  created_at: Date
  updated_at: Date
}

const COLUMNS = 'id, workspace_id, volume_id, mount_path, mode, place, state, created_at, updated_at'

export function listAttachments(reads: Reader, workspace_id: string, { below, limit }: Page): Promise<AttachmentRow[]> {
  return reads.rows(
    'attachments.of_workspace',
    `select ${COLUMNS} from volume_attachments where workspace_id = $1 and ($2::uuid is null or id < $2) order by id desc limit $3`,
    [workspace_id, below, limit + 1],
  )
}

/** Needs no pages: a workspace has at most as many attachments as mount slots. */
export function readAttachments(reads: Reader, workspace_id: string): Promise<AttachmentRow[]> {
  return listAttachments(reads, workspace_id, { below: null, limit: LIMITS.volume.attachments_per_workspace_max })
}

export interface NewAttachment extends Pick<AttachmentRow, 'id' | 'workspace_id' | 'volume_id' | 'mount_path' | 'mode' | 'place'> {
  operation_id: string
  now: Date
}

export async function insertAttachment(tx: ChangeTx, { now, ...columns }: NewAttachment): Promise<void> {
  await tx
    .insertInto('volume_attachments')
    .values({ ...columns, state: 'attaching', created_at: now, updated_at: now })
    .execute()
}

export async function markDetaching(tx: ChangeTx, id: string, operation_id: string, now: Date): Promise<void> {
  await tx.updateTable('volume_attachments').set({ state: 'detaching', operation_id, updated_at: now }).where('id', '=', id).execute()
}

/** Uses the same mount slots, because the fork's memory image contains their mounts. */
export async function copyAttachments(
  tx: ChangeTx,
  from: readonly AttachmentRow[],
  to: { workspace_id: string; nextId: () => string; now: Date },
): Promise<void> {
  const { workspace_id, nextId, now } = to
  const kept = from.filter(({ state }) => state === 'attached')
  if (kept.length === 0) return
  const copies = kept.map(({ volume_id, mount_path, mode, place }) => ({ id: nextId(), workspace_id, volume_id, mount_path, mode, place }))
  await tx
    .insertInto('volume_attachments')
    .values(copies.map((copy) => ({ ...copy, state: 'attached' as const, operation_id: null, created_at: now, updated_at: now })))
    .execute()
}
