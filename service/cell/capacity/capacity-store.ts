import { sql } from 'kysely'
import type { Subject } from '../../../contract/internal/host-subject.ts'
import type { Db } from '../../db/database.ts'

/** Processors are not counted: machines share them by weight. */
export interface CapacityAmount {
  memory_mib: number
  disk_gib: number
}

/**
 * Sums the capacity in use on this cell: machine grants, reservations of running operations, and captured template disks.
 * A hibernated machine counts with its disk alone.
 * @param headroom_mib memory that each machine takes beyond its grant.
 * @param leaving workspaces whose machine may still exist although their row says hibernated.
 * @param but_of machine that requests the capacity: it is left out. A workspace's disk counts, because its request has no disk.
 */
export async function readCapacityInUse(
  db: Db,
  cell_id: string,
  headroom_mib: number,
  leaving: readonly string[],
  but_of: Subject | null,
): Promise<CapacityAmount> {
  const { rows } = await sql<CapacityAmount>`
    select coalesce(sum(memory), 0)::int as memory_mib, coalesce(sum(disk), 0)::int as disk_gib
    from (
      select case when is_gone or is_own then 0 else g.memory_mib + ${headroom_mib}::int end as memory,
        case when is_own and g.kind <> 'workspace' then 0 else g.disk_gib end as disk
      from grants g, lateral (
        select not g.is_reserved and g.kind = 'workspace' and g.residency = 'hibernated' and g.id <> all(${[...leaving]}::uuid[]) as is_gone,
          not g.is_reserved and g.kind = ${but_of?.kind ?? ''} and g.id is not distinct from ${but_of?.id ?? null}::uuid as is_own) as l
      where g.cell_id = ${cell_id}
      union all
      select 0, ceil(sum(size_bytes) / (1024.0 ^ 3))::int from template_captures where cell_id = ${cell_id}
    ) as taken`.execute(db)
  return rows[0] ?? { memory_mib: 0, disk_gib: 0 }
}
