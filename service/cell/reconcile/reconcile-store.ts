import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import { settle, type SettledRow } from '../machines/settle-store.ts'

export interface ExpectedRow extends SettledRow {
  checkpoint_id: string | null
  residency: 'resident' | 'hibernated' | 'restoring'
  /** An operation holds the workspace. It may be one of another workspace: a fork that captures this one. */
  active: boolean
  checkpoints: string[]
}

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

/** Without an operation the workspace would never be ready, so the start-up fails. The next open runs the step again. */
export async function settleStartups(db: Db, cell_id: string, now: Date): Promise<number> {
  const { rows } = await sql`
    update workspaces w set updated_at = ${now}, startup = jsonb_build_object('state', 'failed', 'step', w.startup -> 'step',
      'reason', 'startup_failed', 'exit_code', null, 'output_tail', 'The start-up was interrupted')
    where w.cell_id = ${cell_id} and w.observed_state = 'running' and w.startup ->> 'state' = 'running'
      and not exists (select from operations o where o.workspace_id = w.id and o.completed_at is null)
    returning w.id`.execute(db)
  return rows.length
}
