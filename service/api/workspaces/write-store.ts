import type { ChangeTx } from '../../core/changes/mutate.ts'
import type { PendingSuspend } from '../../core/workspaces/idle.ts'

export async function writeInputs(tx: ChangeTx, id: string, inputs: Record<string, string>, now: Date): Promise<void> {
  await tx
    .updateTable('workspaces')
    .set({ inputs: JSON.stringify(inputs), updated_at: now })
    .where('id', '=', id)
    .execute()
}

export async function writeIdlePolicy(tx: ChangeTx, id: string, idle_policy: string | null, now: Date): Promise<void> {
  await tx.updateTable('workspaces').set({ idle_policy, updated_at: now }).where('id', '=', id).execute()
}

/** null cancels the request. */
export async function writeSuspendRequest(tx: ChangeTx, id: string, asked: PendingSuspend | null, now: Date): Promise<void> {
  await tx
    .updateTable('workspaces')
    .set({
      suspend_requested_at: asked?.requested_at ?? null,
      suspend_after_seconds: asked?.after_seconds ?? null,
      suspend_not_before: asked?.not_before ?? null,
      updated_at: now,
    })
    .where('id', '=', id)
    .execute()
}

export async function freeKey(tx: ChangeTx, workspace_id: string): Promise<void> {
  await tx.updateTable('workspace_keys').set({ reusable: true }).where('workspace_id', '=', workspace_id).execute()
}
