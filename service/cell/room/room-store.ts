import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { Subject } from '../links/subject.ts'

/** Memory and disk. Processors are shared by weight: nobody takes any away. */
export interface Room {
  memory_mib: number
  disk_gib: number
}

/**
 * What is taken on this cell: grants of machines, of which a hibernated one has its disk alone, and what running operations have
 * reserved; and the disk of captures of template versions.
 * @param headroom_mib memory that each machine takes beyond what it is told.
 * @param leaving workspaces whose machine may be there although their row says that it is hibernated.
 * @param but_of whose machine is not counted: it is the one that is asked for. A workspace keeps its disk while it sleeps, and asks for none.
 */
export async function readTaken(
  db: Db,
  cell_id: string,
  headroom_mib: number,
  leaving: readonly string[],
  but_of: Subject | null,
): Promise<Room> {
  const { rows } = await sql<Room>`
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
