import { sql, type ExpressionBuilder } from 'kysely'
import { machineState, type MachineEvent, type ObservedState } from '../../../contract/states/machine.ts'
import type { Db } from '../../db/database.ts'
import type { OperationError, Resources, StartupState } from '../../db/column-types.ts'
import type { Database } from '../../db/schema.ts'
import type { Tx } from '../../db/reader.ts'
import { LostRace, type MachineRow } from '../machines/machine-row-store.ts'

export interface OpenOperation {
  id: string
  kind: string
  state: 'queued' | 'capacity_pending' | 'running'
  workspace_id: string
  source_workspace_id: string | null
  created_at: Date
  deadline_at: Date | null
  attempt: number
  fence: number
  step: string | null
  progress: Progress
  input: Record<string, unknown>
}

export type Attempted = Pick<OpenOperation, 'id' | 'attempt'>

export interface Progress {
  /** Capacity of this operation, in addition to the grants of running workspaces. */
  reserved?: Resources
  /** The number of attempts that the host refused for capacity. They are subtracted from the attempts. */
  no_room?: number
  /** Set by a reset, a restore in place or an adoption, from its commit on. */
  recovery_checkpoint_id?: string | null
  old_disk?: string | null
}

export const OPERATION_COLUMNS = [
  'o.id',
  'o.kind',
  'o.state',
  'o.workspace_id',
  'o.source_workspace_id',
  'o.created_at',
  'o.deadline_at',
  'o.attempt',
  'o.fence',
  'o.step',
  'o.progress',
  'o.input',
] as const

export type Outcome = { state: 'succeeded'; result: Record<string, unknown> } | { state: 'failed'; error: OperationError }

// Lock order: the operation's row, its workspace's row, the row of a fork's other workspace. The API follows this order too
// (api/workspaces/delete.ts). Rows that a transaction inserts need no order: no other transaction can wait for them.

/**
 * Only the operation's last attempt may commit. Its row is locked and checked first: a cancellation or later attempt either waits or has
 * already won.
 */
export async function asAttempt<T>(
  db: Db,
  operation: OpenOperation,
  now: Date,
  work: (tx: Tx) => Promise<T>,
  reached?: { step: string; progress: Progress },
): Promise<T> {
  const step = reached === undefined ? {} : { step: reached.step, progress: JSON.stringify(reached.progress) }
  return db.transaction().execute(async (tx) => {
    const { numUpdatedRows } = await ofAttempt(tx, operation)
      .set({ updated_at: now, ...step })
      .executeTakeFirst()
    if (numUpdatedRows !== 1n) throw new LostRace('The operation')
    return work(tx)
  })
}

export async function endAttempt(
  db: Db,
  operation: OpenOperation,
  now: Date,
  outcome: Outcome,
  work: (tx: Tx) => Promise<void>,
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    const { numUpdatedRows } = await ofAttempt(tx, operation).set(ended(outcome, now)).executeTakeFirst()
    if (numUpdatedRows !== 1n) throw new LostRace('The operation')
    await work(tx)
    await tx.deleteFrom('workspace_holds').where('operation_id', '=', operation.id).execute()
  })
}

/** One statement: a caller waits for each round trip to the database. */
export async function finish(db: Db, operation: Attempted, now: Date, outcome: Outcome): Promise<void> {
  const row = await db
    .with('ended', (query) => ofAttempt(query, operation).set(ended(outcome, now)).returning('id'))
    .with('released', (query) =>
      query.deleteFrom('workspace_holds').where('operation_id', 'in', (inner) => inner.selectFrom('ended').select('id')),
    )
    .selectFrom('ended')
    .select('id')
    .executeTakeFirst()
  if (!row) throw new LostRace('The operation')
}

export function ofAttempt(db: Pick<Db, 'updateTable'>, operation: Attempted) {
  return db
    .updateTable('operations')
    .where('id', '=', operation.id)
    .where('attempt', '=', operation.attempt)
    .where('completed_at', 'is', null)
}

export function ended(outcome: Outcome, now: Date) {
  return {
    state: outcome.state,
    state_reason: null,
    result: outcome.state === 'succeeded' ? JSON.stringify(outcome.result) : null,
    error: outcome.state === 'failed' ? JSON.stringify(outcome.error) : null,
    completed_at: now,
    updated_at: now,
  }
}

export interface Claim {
  operation_id: string
  cell_id: string
  now: Date
  /** null: the kind reserves no capacity, or a retry still has its reservation. */
  reserved: Resources | null
}

/** @returns undefined if the operation has ended, or another transaction has locked its row */
export async function claim(tx: Tx, taking: Claim): Promise<OpenOperation | undefined> {
  return (await claiming(tx, taking).executeTakeFirst()) as OpenOperation | undefined
}

export function claiming(db: Db, { operation_id, cell_id, now, reserved }: Claim) {
  return db
    .updateTable('operations as o')
    .set((eb) => ({
      state: 'running' as const,
      state_reason: null,
      error: null,
      attempt: eb('o.attempt', '+', 1),
      fence: sql<number>`nextval('fences')`,
      cell_id,
      started_at: sql<Date>`coalesce(started_at, ${now})`,
      updated_at: now,
      ...(reserved === null ? {} : { progress: sql<string>`progress || ${JSON.stringify({ reserved })}::jsonb` }),
    }))
    .where('o.id', '=', ({ selectFrom }) =>
      selectFrom('operations as f')
        .select('f.id')
        .where('f.id', '=', operation_id)
        .where('f.completed_at', 'is', null)
        .forUpdate()
        .skipLocked(),
    )
    .returning(OPERATION_COLUMNS)
}

type WorkspaceChanges = Partial<{
  ownership_epoch: number
  desired_state: 'running' | 'suspended' | 'deleted'
  pending_reason: string | null
  ended_reason: string
  cell_id: string
  disk: string | null
  checkpoint_id: string | null
  residency: 'resident'
  startup: StartupState
  grants: Resources | null
  active_at: Date
  deleted_at: Date
  suspend_request: null
}>

export interface Move {
  seen: MachineRow
  event: MachineEvent
  changes: WorkspaceChanges
}

export async function moveWorkspace(
  tx: Tx,
  seen: MachineRow,
  event: MachineEvent,
  now: Date,
  changes: WorkspaceChanges = {},
): Promise<MachineRow> {
  const move = { seen, event, changes }
  const { numUpdatedRows } = await tx.updateTable('workspaces').set(movedColumns(move, now)).where(isAsSeen(seen)).executeTakeFirst()
  if (numUpdatedRows !== 1n) throw new LostRace('The workspace')
  return movedRow(move)
}

export function isAsSeen({ id, ownership_epoch, observed_state, deleted_at }: MachineRow) {
  return (row: ExpressionBuilder<Database, 'workspaces'>) =>
    row.and([
      row('id', '=', id),
      row('ownership_epoch', '=', ownership_epoch),
      row('observed_state', '=', observed_state),
      row('deleted_at', deleted_at === null ? 'is' : 'is not', null),
    ])
}

function stateAfter({ seen, event }: Move): ObservedState {
  const to = machineState(seen.observed_state, event)
  if (to === null) throw new LostRace('The workspace')
  return to
}

export function movedColumns(move: Move, now: Date) {
  const { grants, suspend_request, startup, ...columns } = move.changes
  return {
    ...columns,
    observed_state: stateAfter(move),
    updated_at: now,
    ...(startup === undefined ? {} : { startup: JSON.stringify(startup) }),
    ...(grants === undefined
      ? {}
      : {
          grant_cpu_millis: grants?.cpu_millis ?? null,
          grant_memory_mib: grants?.memory_mib ?? null,
          grant_disk_gib: grants?.disk_gib ?? null,
        }),
    ...(suspend_request === undefined ? {} : { suspend_requested_at: null, suspend_after_seconds: null, suspend_not_before: null }),
  }
}

export function movedRow(move: Move): MachineRow {
  return { ...move.seen, ...rowChanges(move.changes), observed_state: stateAfter(move) }
}

function rowChanges(changes: WorkspaceChanges): Partial<MachineRow> {
  const { ownership_epoch, cell_id, disk, checkpoint_id, residency, startup, grants, deleted_at } = changes
  const all = { ownership_epoch, cell_id, disk, checkpoint_id, residency, startup, grants, deleted_at }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
}

export async function releaseHold(tx: Tx, operation: OpenOperation, workspace_id: string): Promise<void> {
  await tx.deleteFrom('workspace_holds').where('operation_id', '=', operation.id).where('workspace_id', '=', workspace_id).execute()
}

/** Frees the key for another workspace: this workspace contains nothing that a caller could lose. */
export async function freeKey(tx: Tx, seen: MachineRow): Promise<void> {
  await tx
    .updateTable('workspace_keys')
    .set({ reusable: true })
    .where('organization_id', '=', seen.organization_id)
    .where('key', '=', seen.key)
    .where('workspace_id', '=', seen.id)
    .execute()
}

export async function readStep(db: Db, operation: OpenOperation): Promise<string | null> {
  const row = await db.selectFrom('operations').select('step').where('id', '=', operation.id).executeTakeFirst()
  return row?.step ?? null
}
