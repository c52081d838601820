import { sql } from 'kysely'
import { v7 } from 'uuid'
import { LIMITS } from '../../../contract/limits.ts'
import type { OperationKind } from '../../../contract/states/operation.ts'
import { WAITS_FOR_CAPTURE } from '../../core/workspaces/operations/store.ts'
import type { Db } from '../../db/database.ts'
import type { OperationError } from '../../db/column-types.ts'
import { ofAttempt, OPERATION_COLUMNS, type OpenOperation } from './store.ts'
import type { Tx } from '../../db/reader.ts'
import { machineRow, MACHINE_COLUMNS, type MachineRow } from '../machines/machine-row-store.ts'

export interface Queued {
  operation: OpenOperation
  row: MachineRow
}

export interface Open {
  of_workspaces: Queued[]
  others: OtherOperation[]
}

export type OtherOperation = Pick<OpenOperation, 'id' | 'kind' | 'attempt'> & { subject_kind: string; subject_id: string; owner_id: string }

const OPEN_OPERATIONS_MAX = 2000

/**
 * One statement, for latency. Above the limit, operations that wait for capacity are dropped first, fairly between organizations. So they
 * block no other operation, however many wait.
 */
export async function listOpen(db: Db, cell_id: string): Promise<Open> {
  const rows = await db
    .selectFrom('operations as o')
    .leftJoin('workspaces as w', (join) => join.onRef('w.id', '=', 'o.subject_id').on('o.subject_kind', '=', 'workspace'))
    .leftJoin('template_versions as v', 'v.id', 'w.template_version_id')
    .leftJoin('workspaces as s', 's.id', 'o.source_workspace_id')
    .select([...OPERATION_COLUMNS, ...MACHINE_COLUMNS, 'o.subject_kind', 'o.subject_id', 'o.organization_id as owner_id'])
    .where('o.completed_at', 'is', null)
    .where('o.subject_kind', '!=', 'organization') // the API runs these
    .where(IS_NOT_WAITING)
    .where(sql<boolean>`coalesce(o.cell_id, w.cell_id, s.cell_id, ${cell_id}::uuid) = ${cell_id}::uuid`)
    .orderBy(sql`o.state = 'capacity_pending'`)
    .orderBy(sql`row_number() over (partition by o.state = 'capacity_pending', w.organization_id order by o.id)`)
    .orderBy('o.id')
    .limit(OPEN_OPERATIONS_MAX)
    .execute()
  rows.sort((a, b) => (a.id < b.id ? -1 : 1))
  return {
    of_workspaces: rows.filter(({ subject_kind }) => subject_kind === 'workspace').map(queuedOf),
    others: rows.filter(({ subject_kind }) => subject_kind !== 'workspace'),
  }
}

/** A fork that waits for a capture cannot begin until the source is handed to it. */
const IS_NOT_WAITING = sql<boolean>`(o.step is distinct from ${sql.lit(WAITS_FOR_CAPTURE)} or exists (
  select from workspace_holds h where h.operation_id = o.id and h.workspace_id = o.source_workspace_id))`

/** The casts are safe, because the query selects these columns. */
function queuedOf(row: object): Queued {
  const operation = row as OpenOperation
  return { operation: operationOf(operation), row: machineRow({ ...(row as MachineColumns), id: operation.workspace_id }) }
}

type MachineColumns = Parameters<typeof machineRow>[0]

function operationOf(row: OpenOperation): OpenOperation {
  const { id, kind, state, workspace_id, source_workspace_id, created_at, deadline_at, attempt, fence, step, progress, input } = row
  return { id, kind, state, workspace_id, source_workspace_id, created_at, deadline_at, attempt, fence, step, progress, input }
}

const GIVEN_MAX = 1000
/** The longest wait for capacity. */
const GIVEN_MS = LIMITS.wait.capacity_wait_seconds * 1000

export async function readGiven(
  db: Db,
  cell_id: string,
  kinds: readonly OperationKind[],
  now: Date,
): Promise<{ organization_id: string; memory_mib: number }[]> {
  // An operation granted in this period has waited no longer than the period. Ids are ordered by time, so the primary key finds these
  // operations.
  const oldest = v7({ msecs: Math.max(now.getTime() - 2 * GIVEN_MS, 0), seq: 0, random: new Uint8Array(16) })
  const rows = await db
    .selectFrom('operations as o')
    .innerJoin('workspaces as w', 'w.id', 'o.workspace_id')
    .select(['o.organization_id', 'w.ceiling_memory_mib as memory_mib'])
    .where('o.id', '>=', oldest)
    .where('o.cell_id', '=', cell_id)
    .where('o.kind', 'in', kinds)
    .where('o.started_at', '>', new Date(now.getTime() - GIVEN_MS))
    .orderBy('o.started_at', 'desc')
    .orderBy('o.id', 'desc')
    .limit(GIVEN_MAX)
    .execute()
  return rows.reverse()
}

/** For an operation whose part before the wait for capacity is done. */
export async function requeue(tx: Tx, { id }: OpenOperation): Promise<void> {
  await tx.updateTable('operations').set({ state: 'queued', started_at: null }).where('id', '=', id).execute()
}

export async function markPending(db: Db, operation: OpenOperation, now: Date, deadline_at: Date, error: OperationError): Promise<void> {
  await db.transaction().execute(async (tx) => {
    const { numUpdatedRows } = await tx
      .updateTable('operations')
      .set({ state: 'capacity_pending', state_reason: 'no_ready_host', deadline_at, error: JSON.stringify(error), updated_at: now })
      .where('id', '=', operation.id)
      .where('state', '=', 'queued')
      .executeTakeFirst()
    if (numUpdatedRows !== 1n) return
    await tx
      .updateTable('workspaces')
      .set({ pending_reason: 'no_ready_host', updated_at: now })
      .where('id', '=', operation.workspace_id)
      .execute()
  })
}

export async function updatePendingReason(db: Db, { id }: OpenOperation, now: Date, error: OperationError): Promise<void> {
  await db
    .updateTable('operations')
    .set({ error: JSON.stringify(error), updated_at: now })
    .where('id', '=', id)
    .where('state', '=', 'capacity_pending')
    .execute()
}

/** Counts the refusal, which is subtracted from the operation's attempts. */
export async function recordNoCapacity(db: Db, operation: OpenOperation): Promise<void> {
  const no_room = (operation.progress.no_room ?? 0) + 1
  await ofAttempt(db, operation)
    .set({ progress: sql<string>`progress || ${JSON.stringify({ no_room })}::jsonb` })
    .execute()
}
