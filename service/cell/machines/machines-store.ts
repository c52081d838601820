import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { Resources } from '../../db/column-types.ts'

/** Includes reservations by running operations. */
export interface Granted extends Resources {
  organization_id: string
  /** Machines that are not hibernated. Each uses headroom besides its grant. */
  awake: number
}

export async function grantsByOrganization(db: Db, cell_id: string): Promise<Granted[]> {
  const { rows } = await sql<Granted>`
    select organization_id, coalesce(sum(disk_gib), 0)::int as disk_gib,
      coalesce(sum(cpu_millis) filter (where residency <> 'hibernated'), 0)::int as cpu_millis,
      coalesce(sum(memory_mib) filter (where residency <> 'hibernated'), 0)::int as memory_mib,
      (count(*) filter (where residency <> 'hibernated'))::int as awake
    from grants where cell_id = ${cell_id} group by organization_id order by organization_id`.execute(db)
  return rows
}
