import { WAITS_FOR_CAPTURE } from '../../core/workspaces/operations/store.ts'
import type { Db } from '../../db/database.ts'
import type { Tx } from '../../db/reader.ts'
import { machineRow, MACHINE_COLUMNS, type MachineRow } from '../machines/machine-row-store.ts'

export interface Joined {
  operation_id: string
  target: MachineRow
}

/** The most forks of one capture. The next capture serves further forks. */
const JOINED_MAX = 16

export async function listJoined(db: Db, source_workspace_id: string, holder_id: string): Promise<Joined[]> {
  const rows = await db
    .selectFrom('operations as o')
    .innerJoin('workspaces as w', 'w.id', 'o.workspace_id')
    .innerJoin('template_versions as v', 'v.id', 'w.template_version_id')
    .select(['o.id as operation_id', 'w.id', ...MACHINE_COLUMNS])
    .where('o.source_workspace_id', '=', source_workspace_id)
    .where('o.kind', '=', 'fork')
    .where('o.step', '=', WAITS_FOR_CAPTURE)
    .where('o.completed_at', 'is', null)
    .where('o.id', '!=', holder_id) // the holder may have joined before it was handed the source
    .where('w.deleted_at', 'is', null)
    .orderBy('o.id')
    .limit(JOINED_MAX)
    .execute()
  return rows.map(({ operation_id, ...row }) => ({ operation_id, target: machineRow(row) }))
}

/** Writes `state` even if unchanged: the write wakes the runner. @returns false if the fork no longer waits */
export async function takeJoined(tx: Tx, operation_id: string, step: string, now: Date): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('operations')
    .set({ state: 'queued', step, updated_at: now })
    .where('id', '=', operation_id)
    .where('step', '=', WAITS_FOR_CAPTURE)
    .where('completed_at', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}
