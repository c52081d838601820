import type { Reader } from '../../../db/reader.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Resources } from '../../../db/column-types.ts'
import type { Page } from '../../calls/pages.ts'

export interface CheckpointRow {
  id: string
  workspace_id: string
  operation_id: string
  kind: 'suspend' | 'snapshot' | 'fork' | 'recovery'
  label: string | null
  memory: boolean
  size_bytes: number
  disk_bytes: number | null
  resources: Resources
  created_at: Date
  expires_at: Date | null
}

/** $2 is the current time. */
const RESTORABLE = "kind not in ('layer', 'parked') and (expires_at is null or expires_at > $2) and deleted_at is null"
const COLUMNS =
  "id, workspace_id, operation_id, kind, label, engine <> '' as memory, size_bytes, disk_bytes, resources, created_at, expires_at"

export function listCheckpoints(reads: Reader, workspace_id: string, now: Date, page: Page): Promise<CheckpointRow[]> {
  return reads.rows(
    'checkpoints.of_workspace',
    `select ${COLUMNS} from checkpoints
     where workspace_id = $1 and ${RESTORABLE} and ($3::uuid is null or id < $3)
     order by id desc limit $4`,
    [workspace_id, now, page.below, page.limit + 1],
  )
}

export async function hasCheckpoint(reads: Reader, workspace_id: string, checkpoint_id: string, now: Date): Promise<boolean> {
  const rows = await reads.rows('checkpoints.one', `select 1 from checkpoints where workspace_id = $1 and ${RESTORABLE} and id = $3`, [
    workspace_id,
    now,
    checkpoint_id,
  ])
  return rows.length === 1
}

/** The disk of a draft state cannot be restored, but its owner may delete it. */
export async function hasDraftState(reads: Reader, workspace_id: string, checkpoint_id: string): Promise<boolean> {
  const rows = await reads.rows(
    'checkpoints.draft_state',
    `select 1 from checkpoints c join template_draft_states s on s.operation_id = c.operation_id
     where c.workspace_id = $1 and c.id = $2 and c.kind = 'layer' and c.deleted_at is null`,
    [workspace_id, checkpoint_id],
  )
  return rows.length === 1
}

export async function countSnapshots(reads: Reader, workspace_id: string): Promise<number> {
  const [row] = await reads.rows<{ count: number }>(
    'checkpoints.snapshots',
    "select count(*)::int as count from checkpoints where workspace_id = $1 and kind = 'snapshot' and deleted_at is null",
    [workspace_id],
  )
  return row?.count ?? 0
}

export async function wasDeleted(reads: Reader, workspace_id: string, checkpoint_id: string): Promise<boolean> {
  const rows = await reads.rows(
    'checkpoints.deleted',
    'select 1 from checkpoints where workspace_id = $1 and id = $2 and deleted_at is not null',
    [workspace_id, checkpoint_id],
  )
  return rows.length === 1
}

/** The checkpoint's files become orphans, which the cell removes. */
export async function markDeleted(tx: ChangeTx, checkpoint_id: string, now: Date): Promise<void> {
  await tx.updateTable('checkpoints').set({ deleted_at: now }).where('id', '=', checkpoint_id).execute()
}
