import { sql, type Insertable } from 'kysely'
import { OPERATION_ERRORS } from '../../../contract/errors.ts'
import { LIMITS } from '../../../contract/limits.ts'
import type { OperationKind } from '../../../contract/states/operation.ts'
import type { Tx } from '../../db/reader.ts'
import type { PendingSuspend } from '../../core/workspaces/idle.ts'
import type { Database, Resources } from '../../db/schema.ts'
import type { Owned } from '../auth/scope.ts'
import { Again } from '../idempotency/change.ts'

/** Makes the key name this workspace: a new key, or one that the ended workspace `freed` had. @returns whether it is ours. */
export async function takeWorkspaceKey(
  tx: Tx,
  { organization_id, project_id }: Owned,
  key: string,
  workspace_id: string,
  freed: string | null,
): Promise<boolean> {
  if (freed === null) {
    const { numInsertedOrUpdatedRows } = await tx
      .insertInto('workspace_keys')
      .values({ organization_id, project_id, key, workspace_id })
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst()
    return numInsertedOrUpdatedRows === 1n
  }
  const { numUpdatedRows } = await tx
    .updateTable('workspace_keys')
    .set({ project_id, workspace_id, reusable: false })
    .where('organization_id', '=', organization_id)
    .where('key', '=', key)
    .where('workspace_id', '=', freed)
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

export interface NewWorkspace extends Owned {
  id: string
  key: string
  template_version_id: string
  observed_state: 'creating' | 'forking'
  lifetime: 'persistent' | 'session'
  disk_layout: 'legacy' | 'layered'
  caps: Partial<Resources>
  ceilings: Resources
  inputs: Record<string, string>
  cell_id: string | null
  idle_policy: string | null
  now: Date
}

function workspaceValues({ now, caps, ceilings, inputs, ...columns }: NewWorkspace): Insertable<Database['workspaces']> {
  return {
    ...columns,
    desired_state: 'running',
    pending_reason: null,
    ended_reason: null,
    mode: 'processful',
    purpose: 'standard',
    origin: null,
    caps: JSON.stringify(caps),
    ceiling_cpu_millis: ceilings.cpu_millis,
    ceiling_memory_mib: ceilings.memory_mib,
    ceiling_disk_gib: ceilings.disk_gib,
    grant_cpu_millis: null,
    grant_memory_mib: null,
    grant_disk_gib: null,
    inputs: JSON.stringify(inputs),
    startup: null,
    tree_revision: null,
    disk: null,
    checkpoint_id: null,
    active_at: now,
    tool_call_at: null,
    busy_until: null,
    keepalive_until: null,
    suspend_requested_at: null,
    suspend_after_seconds: null,
    suspend_not_before: null,
    tokens_revoked_before: null,
    created_at: now,
    updated_at: now,
    deleted_at: null,
  }
}

export interface NewOperation {
  id: string
  kind: Extract<OperationKind, 'open' | 'suspend' | 'resume' | 'fork' | 'snapshot' | 'restore' | 'reset' | 'delete'>
  workspace: { id: string; organization_id: string; project_id: string }
  source_workspace_id?: string
  cell_id: string | null
  input: Record<string, unknown>
  now: Date
}

/** Which operations wait for room, and for how long (App, "Capacity wait"). */
const WAITS_FOR_ROOM: ReadonlySet<NewOperation['kind']> = new Set(['open', 'resume', 'fork'])

function operationValues(operation: NewOperation): Insertable<Database['operations']> {
  const { id, kind, workspace, source_workspace_id = null, cell_id, input, now } = operation
  return {
    id,
    organization_id: workspace.organization_id,
    project_id: workspace.project_id,
    workspace_id: workspace.id,
    source_workspace_id,
    kind,
    state: 'queued',
    state_reason: null,
    input: JSON.stringify(input),
    result: null,
    error: null,
    created_at: now,
    updated_at: now,
    started_at: null,
    completed_at: null,
    deadline_at: WAITS_FOR_ROOM.has(kind) ? new Date(now.getTime() + LIMITS.capacity_wait_seconds * 1000) : null,
    cell_id,
    step: null,
  }
}

/** A deletion that has been made already: nothing is left to do, only to be told. */
export async function insertFinishedDelete(tx: Tx, { id, workspace, now }: Pick<NewOperation, 'id' | 'workspace' | 'now'>): Promise<void> {
  const values = operationValues({ id, kind: 'delete', workspace, cell_id: null, input: {}, now })
  await tx
    .insertInto('operations')
    .values({ ...values, state: 'succeeded', result: '{}', started_at: now, completed_at: now })
    .execute()
}

/**
 * Records an operation that closes the gate of its workspace. Whoever holds that already has won. One statement: a caller waits, and
 * each way to the database takes its time.
 */
export async function insertOperation(tx: Tx, operation: NewOperation, gate: 'closed' | 'read_only' = 'closed'): Promise<void> {
  const { numInsertedOrUpdatedRows } = await tx
    .with('operation', (query) => query.insertInto('operations').values(operationValues(operation)))
    .insertInto('workspace_holds')
    .values({ workspace_id: operation.workspace.id, operation_id: operation.id, gate })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  if (numInsertedOrUpdatedRows !== 1n) throw new Again('another operation holds the workspace')
}

/** The same with the workspace, which is new; a fork holds its source too. */
export async function insertFirstOperation(tx: Tx, workspace: NewWorkspace, operation: NewOperation): Promise<void> {
  const held = [operation.workspace.id, operation.source_workspace_id].filter((id) => id !== undefined)
  const { numInsertedOrUpdatedRows } = await tx
    .with('workspace', (query) => query.insertInto('workspaces').values(workspaceValues(workspace)))
    .with('operation', (query) => query.insertInto('operations').values(operationValues(operation)))
    .insertInto('workspace_holds')
    .values(held.map((workspace_id) => ({ workspace_id, operation_id: operation.id, gate: 'closed' as const })))
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  if (numInsertedOrUpdatedRows !== BigInt(held.length)) throw new Again('another operation holds the workspace')
}

export async function lockOperation(tx: Tx, id: string): Promise<void> {
  await sql`select 1 from operations where id = ${id} for no key update`.execute(tx)
}

/** Ends an operation that a delete overtakes, and lets go of everything that it holds (DECISIONS, "Workspaces"). */
export async function cancelOperation(tx: Tx, id: string, now: Date): Promise<void> {
  const error = {
    code: 'canceled' as const,
    message: 'The workspace was deleted',
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

export async function writeDesiredState(
  tx: Tx,
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

export async function writeInputs(tx: Tx, id: string, inputs: Record<string, string>, now: Date): Promise<void> {
  await tx
    .updateTable('workspaces')
    .set({ inputs: JSON.stringify(inputs), updated_at: now })
    .where('id', '=', id)
    .execute()
}

export async function writeIdlePolicy(tx: Tx, id: string, idle_policy: string | null, now: Date): Promise<void> {
  await tx.updateTable('workspaces').set({ idle_policy, updated_at: now }).where('id', '=', id).execute()
}

/** null takes the request back. */
export async function writeSuspendRequest(tx: Tx, id: string, asked: PendingSuspend | null, now: Date): Promise<void> {
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

/** Tokens issued until now are refused from here on. */
export async function markDeleted(tx: Tx, id: string, ended_reason: string | null, now: Date): Promise<void> {
  await tx
    .updateTable('workspaces')
    .set({
      desired_state: 'deleted',
      observed_state: 'deleting',
      deleted_at: now,
      tokens_revoked_before: now,
      ended_reason,
      pending_reason: null,
      suspend_requested_at: null,
      suspend_after_seconds: null,
      suspend_not_before: null,
      updated_at: now,
    })
    .where('id', '=', id)
    .execute()
}

/** The workspace has ended in a way that lets its key name another one. */
export async function freeKey(tx: Tx, workspace_id: string): Promise<void> {
  await tx.updateTable('workspace_keys').set({ reusable: true }).where('workspace_id', '=', workspace_id).execute()
}
