import type { ChangeTx } from '../../core/changes/mutate.ts'
import type { Reader } from '../../db/reader.ts'

/** undefined: the workspace has no draft. */

export async function markDiscarded(tx: ChangeTx, workspace_id: string, now: Date): Promise<{ id: string } | undefined> {
  return tx
    .updateTable('template_drafts')
    .set({ discarded_at: now })
    .where('workspace_id', '=', workspace_id)
    .where('discarded_at', 'is', null)
    .returning('id')
    .executeTakeFirst()
}
export function listOpenBuilds(reads: Reader, workspace_id: string): Promise<{ id: string; operation_id: string }[]> {
  return reads.rows(
    'drafts.open_builds',
    `select b.id, b.operation_id from template_drafts d
     join template_builds b on b.template_id = d.template_id and b.kind = 'draft' and b.spec ->> 'workspace_id' = d.workspace_id::text
     join operations o on o.id = b.operation_id
     where d.workspace_id = $1 and o.completed_at is null order by b.id`,
    [workspace_id],
  )
}
export async function listLiveInstances(reads: Reader, draft_id: string): Promise<string[]> {
  const rows = await reads.rows<{ id: string }>(
    'drafts.live_instances',
    `select w.id from workspaces w join template_draft_states s on s.id = w.draft_state_id
     where s.draft_id = $1 and w.deleted_at is null order by w.id`,
    [draft_id],
  )
  return rows.map(({ id }) => id)
}
