import { sql } from 'kysely'
import { machineState, type MachineEvent, type ObservedState } from '../../../contract/states/machine.ts'
import type { Db } from '../../db/database.ts'

export interface ExpectedRow {
  id: string
  observed_state: ObservedState
  ownership_epoch: number
  disk: string | null
  checkpoint_id: string | null
  residency: 'resident' | 'hibernated' | 'restoring'
  /** An operation of its own is not over, or one of another workspace holds it: a fork that captures it. */
  active: boolean
  checkpoints: string[]
}

/**
 * A sweep draws its fence before it reads anything. An operation that is claimed later has a higher one, so the host refuses what the
 * sweep does to that workspace by mistake.
 */
export async function drawFence(db: Db): Promise<number> {
  const { rows } = await sql<{ fence: number }>`select nextval('fences') as fence`.execute(db)
  const [row] = rows
  if (!row) throw new Error('The database drew no fence')
  return row.fence
}

/** Rows of this cell's workspaces, and of other ones that the host names. */
export async function readExpected(db: Db, cell_id: string, found_ids: string[]): Promise<Map<string, ExpectedRow>> {
  const { rows } = await sql<ExpectedRow>`
    select w.id, w.observed_state, w.ownership_epoch, w.disk, w.checkpoint_id, w.residency,
      (exists (select from operations o where o.completed_at is null and o.workspace_id = w.id)
        or exists (select from workspace_holds h join operations o on o.id = h.operation_id where h.workspace_id = w.id and o.completed_at is null)
      ) as active,
      coalesce((select array_agg(c.id::text) from checkpoints c where c.workspace_id = w.id and c.deleted_at is null), '{}') as checkpoints
    from workspaces w
    where (w.cell_id = ${cell_id} and w.observed_state <> 'deleted' and w.mode = 'processful') or w.id = any(${found_ids}::uuid[])
      or (w.cell_id is null and w.observed_state in ('creating', 'forking')) -- its operation may have ended before any cell took it`.execute(
    db,
  )
  return new Map(rows.map((row) => [row.id, row]))
}

export type SettledRow = Pick<ExpectedRow, 'id' | 'observed_state' | 'ownership_epoch' | 'disk'>

/** Changes the state of a workspace; only a death does so during an operation. @returns false if the row has changed since it was read. */
export async function settle(db: Db, seen: SettledRow, event: MachineEvent, now: Date): Promise<boolean> {
  const to = machineState(seen.observed_state, event)
  if (to === null) return false
  const { rows } = await sql`
    update workspaces set observed_state = ${to}, updated_at = ${now}, pending_reason = null,
      grant_cpu_millis = case when ${to} = 'running' then grant_cpu_millis end,
      grant_memory_mib = case when ${to} = 'running' then grant_memory_mib end,
      grant_disk_gib = case when ${to} = 'running' then grant_disk_gib end
    where id = ${seen.id} and observed_state = ${seen.observed_state} and ownership_epoch = ${seen.ownership_epoch}
      and (${event} = 'died' or not exists (select from operations o where o.completed_at is null and o.workspace_id = workspaces.id)
        and not exists (
          select from workspace_holds h join operations o on o.id = h.operation_id where h.workspace_id = workspaces.id and o.completed_at is null))
      -- A hibernated machine was stopped, and one that was woken since has another disk: no two attempts share one.
      and (${event} <> 'died' or (residency = 'resident' and disk is not distinct from ${seen.disk}))
    returning id`.execute(db)
  return rows.length === 1
}

/** Ends a fork that captured nothing and has no operation left. */
export async function settleLostFork(db: Db, seen: ExpectedRow, now: Date): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    if (!(await settle(tx, seen, 'fork_lost', now))) return false
    await sql`update workspaces set deleted_at = ${now}, desired_state = 'deleted', ended_reason = 'fork_failed' where id = ${seen.id}`.execute(
      tx,
    )
    await sql`update workspace_keys set reusable = true where workspace_id = ${seen.id}`.execute(tx)
    return true
  })
}

export async function dropStaleHolds(db: Db): Promise<number> {
  const { rows } = await sql`
    delete from workspace_holds h using operations o
    where o.id = h.operation_id and o.completed_at is not null
    returning h.workspace_id`.execute(db)
  return rows.length
}

/** Fails start-ups that no operation runs any more: the workspace would never be ready. The next open runs the step again. */
export async function settleStartups(db: Db, cell_id: string, now: Date): Promise<number> {
  const { rows } = await sql`
    update workspaces w set updated_at = ${now}, startup = jsonb_build_object('state', 'failed', 'step', w.startup -> 'step',
      'reason', 'startup_failed', 'exit_code', null, 'output_tail', 'The start-up was interrupted')
    where w.cell_id = ${cell_id} and w.observed_state = 'running' and w.startup ->> 'state' = 'running'
      and not exists (select from operations o where o.workspace_id = w.id and o.completed_at is null)
    returning w.id`.execute(db)
  return rows.length
}

export async function stateOf(db: Db, workspace_id: string): Promise<SettledRow | undefined> {
  const row = await db
    .selectFrom('workspaces')
    .select(['id', 'observed_state', 'ownership_epoch', 'disk'])
    .where('id', '=', workspace_id)
    .executeTakeFirst()
  return row as SettledRow | undefined // the column's check constraint
}
