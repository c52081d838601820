import type { ChangeTx } from '../../changes/mutate.ts'

/** For every caller the organization no longer exists, although its workspaces are deleted later. */
export async function beginDeletion(tx: ChangeTx, id: string, now: Date): Promise<void> {
  await tx.updateTable('organizations').set({ deleting_at: now }).where('id', '=', id).execute()
  await tx.updateTable('api_keys').set({ revoked_at: now }).where('organization_id', '=', id).where('revoked_at', 'is', null).execute()
  await tx
    .updateTable('invitations')
    .set({ revoked_at: now })
    .where('organization_id', '=', id)
    .where('accepted_at', 'is', null)
    .where('revoked_at', 'is', null)
    .execute()
  await tx
    .deleteFrom('workspace_ports')
    .where('workspace_id', 'in', (query) => query.selectFrom('workspaces').select('id').where('organization_id', '=', id))
    .execute()
  await tx.deleteFrom('memberships').where('organization_id', '=', id).execute()
}

/** The row still has its slug, so that no other organization can use it. */
export async function markEnded(tx: ChangeTx, id: string, now: Date): Promise<void> {
  await tx
    .updateTable('organizations')
    .set((e) => ({ deleted_at: now, name: e.ref('slug') }))
    .where('id', '=', id)
    .execute()
}

export async function archiveTemplates(tx: ChangeTx, organization_id: string, now: Date): Promise<number> {
  const { numUpdatedRows } = await tx
    .updateTable('templates')
    .set({ archived_at: now })
    .where('organization_id', '=', organization_id)
    .where('archived_at', 'is', null)
    .executeTakeFirst()
  return Number(numUpdatedRows)
}
