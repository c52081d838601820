import type { ChangeTx } from '../changes/mutate.ts'

/** Writes the state that the workspace is to reach and, where `place` names one, its cell. */
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
