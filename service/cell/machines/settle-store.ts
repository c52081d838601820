import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import { type MachineEvent, machineState, type ObservedState } from '../../../contract/states/machine.ts'

/**
 * A sweep draws its fence before it reads anything. An operation that is claimed later has a higher fence, so the host refuses commands
 * from an outdated sweep.
 */
export async function drawFence(db: Db): Promise<number> {
  const { rows } = await sql<{ fence: number }>`select nextval('fences') as fence`.execute(db)
  const [row] = rows
  if (!row) throw new Error('The database drew no fence')
  return row.fence
}

export interface SettledRow {
  id: string
  observed_state: ObservedState
  ownership_epoch: number
  disk: string | null
}

/** During an operation only a death changes the state. */
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

export async function stateOf(db: Db, workspace_id: string): Promise<SettledRow | undefined> {
  return db
    .selectFrom('workspaces')
    .select(['id', 'observed_state', 'ownership_epoch', 'disk'])
    .where('id', '=', workspace_id)
    .executeTakeFirst()
}
