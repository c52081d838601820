import type { ChangeTx } from '../changes/mutate.ts'

/** What the workspace is wanted to be, and where, as far as that is said. */
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
