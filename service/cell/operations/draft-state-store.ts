import type { Db } from '../../db/database.ts'
import type { Tx } from '../../db/reader.ts'

export interface DraftState {
  workspace_id: string
  /** null: the checkpoint is gone. */
  checkpoint_id: string | null
  /** The layers below the draft's own. */
  below: string[]
  /** null: the layers are not made yet. */
  layers: string[] | null
}

export function readDraftState(db: Db, id: string): Promise<DraftState | undefined> {
  return db
    .selectFrom('template_draft_states as s')
    .innerJoin('template_drafts as d', 'd.id', 's.draft_id')
    .innerJoin('workspaces as w', 'w.id', 'd.workspace_id')
    .innerJoin('template_versions as v', 'v.id', 'w.template_version_id')
    .leftJoin('checkpoints as c', (join) =>
      join
        .onRef('c.workspace_id', '=', 'd.workspace_id')
        .onRef('c.operation_id', '=', 's.operation_id')
        .on('c.kind', '=', 'layer')
        .on('c.deleted_at', 'is', null),
    )
    .select(['d.workspace_id', 'c.id as checkpoint_id', 'v.layers as below', 's.layers'])
    .where('s.id', '=', id)
    .executeTakeFirst()
}

/** Writes the layers to the state, for later instances, and to the workspace, which needs them after the draft is deleted. */
export async function keepStateLayers(tx: Tx, of: { state_id: string; workspace_id: string }, layers: string[]): Promise<void> {
  await tx.updateTable('template_draft_states').set({ layers }).where('id', '=', of.state_id).execute()
  await tx.updateTable('workspaces').set({ state_layers: layers }).where('id', '=', of.workspace_id).execute()
}
