import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { OperationError, Resources } from '../../db/schema.ts'
import type { OpenOperation } from './store.ts'

/**
 * What is taken on this cell: grants of running workspaces, of which a hibernated one has its disk alone, and what its operations have
 * reserved.
 * @param moving workspaces whose machine is being parked or woken: one that is hibernated by its row may be there until that has ended.
 */
export async function usedCapacity(db: Db, cell_id: string, moving: readonly string[] = []): Promise<Resources> {
  const { rows } = await sql<Resources>`
    select coalesce(sum(cpu), 0)::int as cpu_millis, coalesce(sum(memory), 0)::int as memory_mib, coalesce(sum(disk), 0)::int as disk_gib
    from (
      select case when is_gone then 0 else grant_cpu_millis end as cpu,
        case when is_gone then 0 else grant_memory_mib end as memory, grant_disk_gib as disk
      from workspaces, lateral (select residency = 'hibernated' and id <> all(${[...moving]}::uuid[]) as is_gone) as l
      where cell_id = ${cell_id} and grant_memory_mib is not null
      union all
      select (progress #>> '{reserved,cpu_millis}')::int, (progress #>> '{reserved,memory_mib}')::int, (progress #>> '{reserved,disk_gib}')::int
      from operations where cell_id = ${cell_id} and completed_at is null and state = 'running'
    ) as taken`.execute(db)
  return rows[0] ?? { cpu_millis: 0, memory_mib: 0, disk_gib: 0 }
}

/** queued → capacity_pending, once. */
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
