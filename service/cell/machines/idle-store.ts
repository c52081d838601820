import { sql } from 'kysely'
import { machineState, type ObservedState } from '../../../contract/states/machine.ts'
import type { IdleFacts } from '../../core/workspaces/idle.ts'
import type { Db } from '../../db/database.ts'

/** A running workspace that nothing holds, with all that its idleness depends on. */
export interface IdleRow extends IdleFacts {
  id: string
  organization_id: string
  project_id: string
  key: string
  observed_state: ObservedState
  ownership_epoch: number
  cell_id: string | null
}

export async function readIdle(db: Db, cell_id: string): Promise<IdleRow[]> {
  const rows = await db
    .selectFrom('workspaces as w')
    .innerJoin('template_versions as v', 'v.id', 'w.template_version_id')
    .leftJoin('workspace_holds as h', 'h.workspace_id', 'w.id')
    .select([
      'w.id',
      'w.organization_id',
      'w.project_id',
      'w.key',
      'w.observed_state',
      'w.ownership_epoch',
      'w.cell_id',
      'w.lifetime',
      'w.idle_policy',
      'w.active_at',
      'w.tool_call_at',
      'w.busy_until',
      'w.keepalive_until',
      'w.suspend_requested_at',
      'w.suspend_after_seconds',
      'w.suspend_not_before',
      'v.settings',
    ])
    .where('w.cell_id', '=', cell_id)
    .where('w.observed_state', '=', 'running')
    .where('w.desired_state', '=', 'running')
    .where('w.mode', '=', 'processful')
    .where('h.operation_id', 'is', null)
    .execute()
  return rows.map(({ settings, ...row }) => ({
    ...row,
    observed_state: row.observed_state as ObservedState,
    template_defaults: defaultsOf(settings),
  }))
}

function defaultsOf(settings: object): IdleFacts['template_defaults'] {
  return 'defaults' in settings && typeof settings.defaults === 'object' && settings.defaults !== null ? settings.defaults : {}
}

export interface SystemOperation {
  id: string
  kind: 'suspend' | 'delete'
  input: Record<string, unknown>
}

/**
 * The operation that a caller could have asked for, asked for by the service: by the same rules, in one transaction.
 * @returns false where the workspace is held, or is not as it was seen any more.
 */
export async function beginBySystem(db: Db, seen: IdleRow, operation: SystemOperation, now: Date): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    const changes = operation.kind === 'suspend' ? ({ desired_state: 'suspended' } as const) : deletion(now)
    const { numUpdatedRows } = await tx
      .updateTable('workspaces')
      .set({ ...changes, suspend_requested_at: null, suspend_after_seconds: null, suspend_not_before: null, updated_at: now })
      .where('id', '=', seen.id)
      .where('observed_state', '=', seen.observed_state)
      .where('desired_state', '=', 'running')
      .where('ownership_epoch', '=', seen.ownership_epoch)
      .where('deleted_at', 'is', null)
      .where('active_at', '<=', seen.active_at)
      .where(sql<boolean>`not exists (select from workspace_holds h where h.workspace_id = workspaces.id)`)
      .executeTakeFirst()
    if (numUpdatedRows !== 1n || machineState(seen.observed_state, BEGINS[operation.kind]) === null) return false
    const { organization_id, project_id, cell_id } = seen
    const common = { organization_id, project_id, workspace_id: seen.id, cell_id, created_at: now, updated_at: now }
    await tx
      .insertInto('operations')
      .values({ ...common, id: operation.id, kind: operation.kind, state: 'queued', input: JSON.stringify(operation.input) })
      .execute()
    await tx.insertInto('workspace_holds').values({ workspace_id: seen.id, operation_id: operation.id, gate: 'closed' }).execute()
    if (operation.kind === 'delete') {
      await tx
        .updateTable('workspace_keys')
        .set({ reusable: true })
        .where('organization_id', '=', organization_id)
        .where('key', '=', seen.key)
        .where('workspace_id', '=', seen.id)
        .execute()
    }
    return true
  })
}

const BEGINS = { suspend: 'suspend_begun', delete: 'delete_begun' } as const

function deletion(now: Date) {
  return { desired_state: 'deleted' as const, deleted_at: now, ended_reason: 'idle_timeout', tokens_revoked_before: now }
}

/** A tool call came after the request: it is void. */
export async function dropSuspendRequest(db: Db, seen: IdleRow): Promise<void> {
  await db
    .updateTable('workspaces')
    .set({ suspend_requested_at: null, suspend_after_seconds: null, suspend_not_before: null })
    .where('id', '=', seen.id)
    .where('suspend_requested_at', '=', seen.suspend_requested_at)
    .execute()
}

/** What the agent said of commands that still run. */
export async function noteBusy(db: Db, workspace_id: string, busy_until: Date): Promise<void> {
  await db
    .updateTable('workspaces')
    .set({ busy_until: sql<Date>`greatest(busy_until, ${busy_until})` })
    .where('id', '=', workspace_id)
    .execute()
}
