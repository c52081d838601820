import type { Tx } from '../../db/reader.ts'

/** Removes the rows before the caller removes the files, so that no row names a missing file. */
export async function dropSuperseded(tx: Tx, workspace_id: string, kept: string): Promise<string[]> {
  const rows = await tx
    .deleteFrom('checkpoints')
    .where('workspace_id', '=', workspace_id)
    .where('kind', 'in', ['suspend', 'fork', 'parked'])
    .where('id', '<>', kept)
    .where('deleted_at', 'is', null)
    .returning('id')
    .execute()
  return rows.map(({ id }) => id)
}
