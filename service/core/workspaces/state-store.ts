import type { ChangeTx } from '../changes/mutate.ts'

export async function writeDesiredState(
  tx: ChangeTx,
  id: string,
  desired_state: 'running' | 'suspended' | 'deleted',
  place: { cell_id?: string | null },
  now: Date,
): Promise<void> {
  await tx
    .updateTable('workspaces')
    .set({ desired_state, ...place, updated_at: now })
    .where('id', '=', id)
    .execute()
}

export async function markDeleted(tx: ChangeTx, id: string, ended_reason: string | null, now: Date) {
  return tx
    .updateTable('workspaces')
    .set({
      desired_state: 'deleted',
      observed_state: 'deleting',
      deleted_at: now,
      tokens_revoked_before: now,
      ended_reason,
      pending_reason: null,
      suspend_requested_at: null,
      suspend_after_seconds: null,
      suspend_not_before: null,
      updated_at: now,
    })
    .where('id', '=', id)
    .returning(['id', 'organization_id', 'project_id'])
    .executeTakeFirstOrThrow()
}
