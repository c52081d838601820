import { sql, type ExpressionBuilder, type Selectable, type Transaction } from 'kysely'
import { machineState, type MachineEvent, type ObservedState } from '../../../contract/states/machine.ts'
import type { Db } from '../../db/database.ts'
import type { Database, MachineVolume, OperationError, Resources } from '../../db/schema.ts'
import type { StartupState } from '../../db/schema-templates.ts'

export type Tx = Transaction<Database>

/** An operation of a workspace that is not over, as the runner sees it. */
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

/** One attempt at an operation. */
export type Attempted = Pick<OpenOperation, 'id' | 'attempt'>

/** What the runner notes beside the last finished step. */
export interface Progress {
  /** Room that this operation takes up beside the grants of running workspaces. */
  reserved?: Resources
  /** Attempts to which the host said that it has no room: they do not count against the operation. */
  no_room?: number
  /** Of a reset, a restore in place or an adoption, from its commit on. */
  recovery_checkpoint_id?: string | null
  old_disk?: string | null
}

/** A workspace's row, as far as its machine is concerned. */
export interface MachineRow {
  id: string
  organization_id: string
  key: string
  observed_state: ObservedState
  lifetime: 'persistent' | 'session'
  mode: 'processful' | 'file_first'
  ownership_epoch: number
  cell_id: string | null
  disk: string | null
  checkpoint_id: string | null
  residency: 'resident' | 'hibernated' | 'restoring'
  ceilings: Resources
  grants: Resources | null
  disk_layout: 'legacy' | 'layered'
  layers: string[]
  /** Of a test instance of a draft: the draft's state, until its layer was made and given to this workspace. null: nothing is to be made. */
  unmade_state: string | null
  /** That are attached to it. */
  volumes: MachineVolume[]
  /** null: its template version has nothing to start. */
  startup: StartupState | null
  deleted_at: Date | null
}

/** Somebody else has written: what this attempt believed is over, and nothing of it may be written. */
export class LostRace extends Error {
  constructor(what: string) {
    super(`${what} has moved on`)
  }
}

/** Whether it counts as running and has no machine that could be asked: it is hibernated, or is just being restored. */
export function isHibernated({ residency }: MachineRow): boolean {
  return residency !== 'resident'
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

export async function readMachineRow(db: Db, workspace_id: string): Promise<MachineRow> {
  const row = await db
    .selectFrom('workspaces as w')
    .innerJoin('template_versions as v', 'v.id', 'w.template_version_id')
    .select(['w.id', ...MACHINE_COLUMNS])
    .where('w.id', '=', workspace_id)
    .executeTakeFirst()
  if (!row) throw new LostRace('The workspace')
  return machineRow(row)
}

/** Of a workspace and its template version, beside the id. */
export const MACHINE_COLUMNS = [
  'w.organization_id',
  'w.key',
  'w.observed_state',
  'w.lifetime',
  'w.mode',
  'w.ownership_epoch',
  'w.cell_id',
  'w.disk',
  'w.disk_layout',
  'w.checkpoint_id',
  'w.ceiling_cpu_millis',
  'w.ceiling_memory_mib',
  'w.ceiling_disk_gib',
  'w.grant_cpu_millis',
  'w.grant_memory_mib',
  'w.grant_disk_gib',
  'w.residency',
  'w.deleted_at',
  'w.volumes',
  'w.startup',
  'w.draft_state_id',
  'w.state_layers',
  'v.layers',
] as const

type ColumnOfWorkspace = Extract<(typeof MACHINE_COLUMNS)[number], `w.${string}`> extends `w.${infer Name}` ? Name : never

export function machineRow(row: Pick<Selectable<Database['workspaces']>, 'id' | ColumnOfWorkspace> & { layers: string[] }): MachineRow {
  return {
    id: row.id,
    organization_id: row.organization_id,
    key: row.key,
    observed_state: row.observed_state as ObservedState, // the column's check constraint
    lifetime: row.lifetime,
    mode: row.mode,
    ownership_epoch: row.ownership_epoch,
    cell_id: row.cell_id,
    disk: row.disk,
    checkpoint_id: row.checkpoint_id,
    residency: row.residency,
    ceilings: { cpu_millis: row.ceiling_cpu_millis, memory_mib: row.ceiling_memory_mib, disk_gib: row.ceiling_disk_gib },
    grants:
      row.grant_cpu_millis === null || row.grant_memory_mib === null || row.grant_disk_gib === null
        ? null
        : { cpu_millis: row.grant_cpu_millis, memory_mib: row.grant_memory_mib, disk_gib: row.grant_disk_gib },
    disk_layout: row.disk_layout,
    layers: row.state_layers ?? row.layers,
    unmade_state: row.state_layers === null ? row.draft_state_id : null,
    volumes: row.volumes,
    startup: row.startup,
    deleted_at: row.deleted_at,
  }
}

export type Outcome = { state: 'succeeded'; result: Record<string, unknown> } | { state: 'failed'; error: OperationError }

/*
 * The order of locks, for whoever locks both: first the operation's row, then its workspace's, then that of a fork's other workspace. The
 * API does so too (api/workspaces/delete.ts). Rows that a transaction itself inserts are nobody else's to wait for.
 */

/**
 * A transaction that this attempt of the operation alone may commit: its row is locked and proven to be ours first, so that a
 * cancellation or a later attempt either waits or has won already.
 * @param reached the step that is done with the commit.
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

/** The last transaction of an operation, by its attempt: outcome, workspace, and everything that it holds. */
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

/** The same where no workspace changes: one statement, since somebody waits for it and each way to the database takes its time. */
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

/** The operation while it is this attempt's and not over. */
export function ofAttempt(db: Pick<Db, 'updateTable'>, operation: Attempted) {
  return db
    .updateTable('operations')
    .where('id', '=', operation.id)
    .where('attempt', '=', operation.attempt)
    .where('completed_at', 'is', null)
}

/** The columns of an operation that is over. */
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

/** A cell's taking of an operation. */
export interface Claim {
  operation_id: string
  cell_id: string
  now: Date
  /** Room that a start takes; null for what takes none, and for a repeat, which has its reservation. */
  reserved: Resources | null
}

/** Takes the operation for a new attempt. undefined: it is over, or somebody else holds its row. */
export async function claim(tx: Tx, taking: Claim): Promise<OpenOperation | undefined> {
  return (await claiming(tx, taking).executeTakeFirst()) as OpenOperation | undefined
}

/** claim, not yet executed. */
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

/** What the table makes of a workspace that was seen as it is. */
export interface Move {
  seen: MachineRow
  event: MachineEvent
  changes: WorkspaceChanges
}

/** Moves the workspace by the table, where it still is what was seen. @returns the row as it is then. */
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

/** The condition of every move: the workspace's row still is, in what concerns its machine, what was seen. */
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

/** What a move writes. Throws LostRace where the table has no such move. */
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

/** The row as a move leaves it. */
export function movedRow(move: Move): MachineRow {
  return { ...move.seen, ...rowChanges(move.changes), observed_state: stateAfter(move) }
}

/** Those of the changes that a MachineRow has. */
function rowChanges(changes: WorkspaceChanges): Partial<MachineRow> {
  const { ownership_epoch, cell_id, disk, checkpoint_id, residency, startup, grants, deleted_at } = changes
  const all = { ownership_epoch, cell_id, disk, checkpoint_id, residency, startup, grants, deleted_at }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
}

export async function releaseHold(tx: Tx, operation: OpenOperation, workspace_id: string): Promise<void> {
  await tx.deleteFrom('workspace_holds').where('operation_id', '=', operation.id).where('workspace_id', '=', workspace_id).execute()
}

/** The key may name a new workspace: nothing that anybody used is lost with this one. */
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
