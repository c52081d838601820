import type { ChangeTx } from '../../changes/mutate.ts'

export async function retireSigningKeys(tx: ChangeTx, now: Date): Promise<string[]> {
  const rows = await tx.updateTable('signing_keys').set({ retired_at: now }).where('retired_at', 'is', null).returning('kid').execute()
  return rows.map(({ kid }) => kid)
}

export async function revokeWorkspaceTokens(tx: ChangeTx, id: string, now: Date) {
  return tx
    .updateTable('workspaces')
    .set({ tokens_revoked_before: now })
    .where('id', '=', id)
    .returning(['id', 'organization_id', 'project_id'])
    .executeTakeFirst()
}
