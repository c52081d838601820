import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import { MACHINE_COLUMNS, machineRow, OPERATION_COLUMNS, type MachineRow, type OpenOperation } from './store.ts'

/** An operation that is not over, and its workspace as it is beside it. */
export interface Queued {
  operation: OpenOperation
  row: MachineRow
}

const OPEN_OPERATIONS_MAX = 2000

/**
 * Every open operation that is this cell's or nobody's, oldest first. One statement: somebody waits for what it finds. What waits for
 * room already is left out first: however much of that there is, nothing else waits behind it.
 */
export async function listOpen(db: Db, cell_id: string): Promise<Queued[]> {
  const rows = await db
    .selectFrom('operations as o')
    .innerJoin('workspaces as w', 'w.id', 'o.workspace_id')
    .innerJoin('template_versions as v', 'v.id', 'w.template_version_id')
    .leftJoin('workspaces as s', 's.id', 'o.source_workspace_id')
    .select([...OPERATION_COLUMNS, ...MACHINE_COLUMNS])
    .where('o.completed_at', 'is', null)
    .where(sql<boolean>`coalesce(o.cell_id, w.cell_id, s.cell_id, ${cell_id}::uuid) = ${cell_id}::uuid`)
    .orderBy(sql`o.state = 'capacity_pending'`)
    .orderBy('o.id')
    .limit(OPEN_OPERATIONS_MAX)
    .execute()
  const open = rows.map((row) => {
    const operation = row as OpenOperation // by the joins and the condition: it has a workspace, and is not over
    return { operation: operationOf(operation), row: machineRow({ ...row, id: operation.workspace_id }) }
  })
  return open.sort((a, b) => (a.operation.id < b.operation.id ? -1 : 1))
}

/** Nothing but the operation, of a row that has more. */
function operationOf(row: OpenOperation): OpenOperation {
  const { id, kind, state, workspace_id, source_workspace_id, created_at, deadline_at, attempt, fence, step, progress, input } = row
  return { id, kind, state, workspace_id, source_workspace_id, created_at, deadline_at, attempt, fence, step, progress, input }
}
