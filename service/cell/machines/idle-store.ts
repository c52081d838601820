import { sql } from 'kysely'
import { LIMITS } from '../../../contract/limits.ts'
import { machineState, type ObservedState } from '../../../contract/states/machine.ts'
import { serviceOrigin } from '../../core/changes/audit.ts'
import { mutate, type ChangeTx } from '../../core/changes/mutate.ts'
import { aboutWorkspace, insertOperation } from '../../core/workspaces/operations/store.ts'
import { idleRetryAt, type IdleFacts } from '../../core/workspaces/idle.ts'
import type { Db } from '../../db/database.ts'
import type { Ids } from '../../lib/ids.ts'
import type { Tx } from '../../db/reader.ts'

/** A running workspace that no operation holds. */
export interface IdleRow extends IdleFacts {
  id: string
  organization_id: string
  project_id: string
  key: string
  observed_state: ObservedState
  cell_id: string | null
}

export async function readIdle(db: Db, cell_id: string, now: Date): Promise<IdleRow[]> {
  const latest = new Date(now.getTime() - LIMITS.idle.adaptive_seconds_min * 1000)
  const rows = await running(db)
    .where('w.cell_id', '=', cell_id)
    .where(
      sql<boolean>`(w.suspend_requested_at is not null or (w.idle_policy is distinct from 'never' and w.active_at <= ${latest}
        and (w.keepalive_until is null or w.keepalive_until <= ${now}) and (w.idle_retry_at is null or w.idle_retry_at <= ${now})))`,
    )
    .execute()
  return rows.map(idleRow)
}

/**
 * The workspaces to suspend (App, "Workspace observed state").
 * @param failed_before leaves out workspaces whose suspend failed after this time.
 */
export async function readExhausted(db: Db, cell_id: string, failed_before: Date): Promise<string[]> {
  const rows = await running(db)
    .innerJoin('organizations as g', 'g.id', 'w.organization_id')
    .where('g.allowance_exhausted', 'is not', null)
    .where('w.cell_id', '=', cell_id)
    .where(
      sql<boolean>`not exists (select from operations o
        where o.workspace_id = w.id and o.kind = 'suspend' and o.state = 'failed' and o.completed_at >= ${failed_before})`,
    )
    .execute()
  return rows.map(({ id }) => id)
}

export interface DiskHolder extends IdleRow {
  disk_gib: number
  residency: string
}

/** Reads workspaces whose idle policy lets the service choose the time of their suspend. */
export async function readDiskHolders(db: Db, cell_id: string, now: Date): Promise<DiskHolder[]> {
  const latest = new Date(now.getTime() - LIMITS.idle.adaptive_seconds_min * 1000)
  const rows = await running(db)
    .innerJoin('machines as m', (join) => join.onRef('m.id', '=', 'w.id').on('m.kind', '=', 'workspace'))
    .select(['m.grant_disk_gib as disk_gib', 'm.residency'])
    .where('w.cell_id', '=', cell_id)
    .where('w.lifetime', '=', 'persistent')
    .where('w.active_at', '<=', latest)
    .where(
      sql<boolean>`coalesce(w.idle_policy, v.settings #>> '{defaults,idle_policy}', 'adaptive') = 'adaptive'
        and coalesce(w.keepalive_until <= ${now}, true) and coalesce(w.busy_until <= ${now}, true)
        and coalesce(w.idle_retry_at <= ${now}, true)`,
    )
    .execute()
  return rows.map((row) => ({ ...idleRow(row), disk_gib: row.disk_gib, residency: row.residency }))
}

/** Sums the disk that current suspends and deletions will release. It counts as in use until they end. */
export async function readComingDisk(db: Db, cell_id: string): Promise<number> {
  const { rows } = await sql<{ disk_gib: number }>`
    select coalesce(sum(g.disk_gib), 0)::int as disk_gib
    from grants g join workspace_holds h on h.workspace_id = g.id join operations o on o.id = h.operation_id
    where g.cell_id = ${cell_id} and g.kind = 'workspace' and o.kind in ('suspend', 'delete')`.execute(db)
  return rows[0]?.disk_gib ?? 0
}

function running(db: Db | Tx) {
  return db
    .selectFrom('workspaces as w')
    .innerJoin('template_versions as v', 'v.id', 'w.template_version_id')
    .leftJoin('workspace_holds as h', 'h.workspace_id', 'w.id')
    .select([
      'w.id',
      'w.organization_id',
      'w.project_id',
      'w.key',
      'w.observed_state',
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
      'w.idle_gaps',
      'w.idle_failures',
      'w.idle_retry_at',
    ])
    .select(sql<IdleFacts['template_defaults'] | null>`v.settings -> 'defaults'`.as('defaults'))
    .where('w.observed_state', '=', 'running')
    .where('w.desired_state', '=', 'running')
    .where('w.mode', '=', 'processful')
    .where('h.operation_id', 'is', null)
}

function idleRow({ defaults, ...row }: Awaited<ReturnType<ReturnType<typeof running>['executeTakeFirstOrThrow']>>): IdleRow {
  return { ...row, template_defaults: defaults ?? {} }
}

export interface SystemOperation {
  id: string
  kind: 'suspend' | 'delete'
  input: Record<string, unknown>
}

/**
 * Begins an operation of the service under the same rules as a caller's.
 * @param choose checks the locked row; null begins nothing.
 * @param recorded the kind that writes an audit event. An idle suspend writes none: its input has the reason.
 * @returns null also if the workspace is held or does not run any more.
 */
export async function beginBySystem(
  { db, ids }: { db: Db; ids: Ids },
  workspace_id: string,
  choose: (row: IdleRow) => SystemOperation | null,
  now: Date,
  recorded: SystemOperation['kind'],
): Promise<SystemOperation | null> {
  const work = async (tx: ChangeTx) => {
    // A separate statement: one that waits for the lock would read an outdated hold.
    await sql`select 1 from workspaces where id = ${workspace_id} for no key update`.execute(tx)
    const found = await running(tx).where('w.id', '=', workspace_id).executeTakeFirst()
    if (found === undefined) return null
    const row = idleRow(found)
    const operation = choose(row)
    if (operation === null) return null
    const observed_state = machineState(row.observed_state, BEGINS[operation.kind])
    if (observed_state === null) return null
    const changes = operation.kind === 'suspend' ? ({ desired_state: 'suspended' } as const) : { ...deletion(now), observed_state }
    await tx
      .updateTable('workspaces')
      .set({ ...changes, suspend_requested_at: null, suspend_after_seconds: null, suspend_not_before: null, updated_at: now })
      .where('id', '=', row.id)
      .execute()
    const begun = { ...aboutWorkspace(row), ...operation, cell_id: row.cell_id, now }
    await insertOperation(tx, begun, { workspace_ids: [row.id], gate: 'closed' })
    if (operation.kind === 'delete') {
      await tx.updateTable('workspace_keys').set({ reusable: true }).where('workspace_id', '=', row.id).execute()
    }
    return { operation, row }
  }
  const begun = await mutate(db, serviceOrigin('cell', { ids, now }), `workspaces.${recorded}`, work, (done) => {
    if (done?.operation.kind !== recorded) return null
    const { id, organization_id, project_id } = done.row
    return { kind: 'workspace', id, organization_id, project_id, details: { reason: String(done.operation.input['reason']) } }
  })
  return begun?.operation ?? null
}

const BEGINS = { suspend: 'suspend_begun', delete: 'delete_begun' } as const

function deletion(now: Date) {
  return { desired_state: 'deleted' as const, deleted_at: now, ended_reason: 'idle_timeout', tokens_revoked_before: now }
}

export type SuspendAsked = Pick<IdleRow, 'id' | 'suspend_requested_at'>

/** Removes only the request that was read, no newer one. */
export async function dropSuspendRequest(db: Db, seen: SuspendAsked): Promise<void> {
  await db
    .updateTable('workspaces')
    .set({ suspend_requested_at: null, suspend_after_seconds: null, suspend_not_before: null })
    .where('id', '=', seen.id)
    .where('suspend_requested_at', '=', seen.suspend_requested_at)
    .execute()
}

export async function noteBusy(db: Db, workspace_id: string, busy_until: Date): Promise<void> {
  await db.updateTable('workspaces').set({ busy_until }).where('id', '=', workspace_id).execute()
}

export async function noteFailure(tx: Tx, workspace_id: string, now: Date): Promise<void> {
  const { idle_failures } = await tx
    .updateTable('workspaces')
    .set({ idle_failures: sql<number>`idle_failures + 1` })
    .where('id', '=', workspace_id)
    .returning('idle_failures')
    .executeTakeFirstOrThrow()
  await tx
    .updateTable('workspaces')
    .set({ idle_retry_at: idleRetryAt(idle_failures, now) })
    .where('id', '=', workspace_id)
    .execute()
}

export async function forgetFailures(tx: Tx, workspace_id: string): Promise<void> {
  await tx
    .updateTable('workspaces')
    .set({ idle_failures: 0, idle_retry_at: null })
    .where('id', '=', workspace_id)
    .where('idle_failures', '>', 0)
    .execute()
}
