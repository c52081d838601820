import { sql, type Insertable } from 'kysely'
import { LIMITS } from '../../../../contract/limits.ts'
import { OPERATION_ERRORS } from '../../../../contract/errors.ts'
import type { OperationKind, OperationSubject } from '../../../../contract/states/operation.ts'
import { actorOf, type ChangeTx } from '../../changes/mutate.ts'
import type { Database } from '../../../db/schema.ts'
import { StaleReadError } from '../../changes/stale-read-error.ts'
import { actorFacts } from '../../changes/audit.ts'

/** `workspace_id` is the one that the API shows; null: the operation concerns no workspace. */
export interface NewOperation {
  id: string
  kind: OperationKind
  subject: { kind: OperationSubject; id: string }
  organization_id: string
  /** null: the operation concerns an organization. */
  project_id: string | null
  workspace_id: string | null
  source_workspace_id?: string
  /** True: the fork waits for the capture of another fork of its source, and does not lock the source. */
  joins?: boolean
  /** null: any cell may run it. */
  cell_id: string | null
  input: Record<string, unknown>
  now: Date
}

type OperationTarget = Pick<NewOperation, 'subject' | 'organization_id' | 'project_id' | 'workspace_id'>

export function aboutWorkspace({
  id,
  organization_id,
  project_id,
}: {
  id: string
  organization_id: string
  project_id: string
}): OperationTarget {
  return { subject: { kind: 'workspace', id }, organization_id, project_id, workspace_id: id }
}

export function aboutVolume({
  id,
  organization_id,
  project_id,
}: {
  id: string
  organization_id: string
  project_id: string
}): OperationTarget {
  return { subject: { kind: 'volume', id }, organization_id, project_id, workspace_id: null }
}

export function aboutBuild({
  id,
  organization_id,
  project_id,
}: {
  id: string
  organization_id: string
  project_id: string
}): OperationTarget {
  return { subject: { kind: 'template_build', id }, organization_id, project_id, workspace_id: null }
}

/**
 * The step of a fork that waits for another fork's capture of its source (decision 256).
 * If that fork ends without a capture, the trigger hold_passes gives the source's lock to the first waiting fork.
 */
export const WAITS_FOR_CAPTURE = 'joined'

/** Kinds that wait for capacity (App, "Capacity wait"). */
const WAITS_FOR_CAPACITY: ReadonlySet<OperationKind> = new Set(['open', 'resume', 'fork'])

export function operationRow(tx: ChangeTx, operation: NewOperation): Insertable<Database['operations']> {
  const { subject, source_workspace_id = null, joins = false, input, now, ...columns } = operation
  return {
    ...columns,
    subject_kind: subject.kind,
    subject_id: subject.id,
    source_workspace_id,
    requested_by: JSON.stringify(actorFacts(actorOf(tx))),
    state: 'queued',
    state_reason: null,
    input: JSON.stringify(input),
    result: null,
    error: null,
    created_at: now,
    updated_at: now,
    started_at: null,
    completed_at: null,
    deadline_at: WAITS_FOR_CAPACITY.has(operation.kind) ? new Date(now.getTime() + LIMITS.wait.capacity_wait_seconds * 1000) : null,
    step: joins ? WAITS_FOR_CAPTURE : null,
  }
}

export interface WorkspaceLock {
  workspace_ids: readonly string[]
  gate: 'open' | 'closed' | 'read_only'
}

/**
 * @throws StaleReadError if another operation locks one of the workspaces.
 * @param hold null: the operation locks no workspace.
 */
export async function insertOperation(tx: ChangeTx, operation: NewOperation, hold: WorkspaceLock | null): Promise<void> {
  if (hold === null) return void (await tx.insertInto('operations').values(operationRow(tx, operation)).execute())
  const { numInsertedOrUpdatedRows } = await tx
    .with('operation', (query) => query.insertInto('operations').values(operationRow(tx, operation)))
    .insertInto('workspace_holds')
    .values(holdRows(operation, hold))
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  throwUnlessLocked(numInsertedOrUpdatedRows, hold)
}

export function holdRows({ id: operation_id }: NewOperation, { workspace_ids, gate }: WorkspaceLock) {
  return workspace_ids.map((workspace_id) => ({ workspace_id, operation_id, gate }))
}

export function throwUnlessLocked(held: bigint | undefined, { workspace_ids }: WorkspaceLock): void {
  if (held !== BigInt(workspace_ids.length)) throw new StaleReadError('another operation holds the workspace')
}

/** A delete that has already succeeded: no process runs it, the caller only reads it. */
export async function insertFinishedDelete(
  tx: ChangeTx,
  { id, now, ...about }: OperationTarget & Pick<NewOperation, 'id' | 'now'>,
): Promise<void> {
  const row = operationRow(tx, { ...about, id, kind: 'delete', cell_id: null, input: {}, now })
  await tx
    .insertInto('operations')
    .values({ ...row, state: 'succeeded', result: '{}', started_at: now, completed_at: now })
    .execute()
}

export async function lockOperation(tx: ChangeTx, id: string): Promise<void> {
  await sql`select 1 from operations where id = ${id} for no key update`.execute(tx)
}

/** No process runs these forks yet. */
export async function readWaitingForks(tx: ChangeTx, source_workspace_id: string): Promise<{ id: string; workspace_id: string }[]> {
  const { rows } = await sql<{ id: string; workspace_id: string }>`
    select id, workspace_id from operations
    where source_workspace_id = ${source_workspace_id} and kind = 'fork' and step = ${WAITS_FOR_CAPTURE} and completed_at is null
    order by id for no key update`.execute(tx)
  return rows
}

export async function releaseWorkspaceLock(tx: ChangeTx, operation_id: string, workspace_id: string): Promise<void> {
  await tx.deleteFrom('workspace_holds').where('operation_id', '=', operation_id).where('workspace_id', '=', workspace_id).execute()
}

/** Releases all workspace locks of the operation. */
export async function cancelOperation(tx: ChangeTx, id: string, now: Date, message = 'The workspace was deleted'): Promise<void> {
  const error = {
    code: 'canceled' as const,
    message,
    retryable: OPERATION_ERRORS.canceled.retryable,
    details: {},
  }
  await tx
    .updateTable('operations')
    .set({ state: 'canceled', state_reason: null, error: JSON.stringify(error), updated_at: now, completed_at: now })
    .where('id', '=', id)
    .where('completed_at', 'is', null)
    .execute()
  await tx.deleteFrom('workspace_holds').where('operation_id', '=', id).execute()
}
