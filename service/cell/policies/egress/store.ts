import { sql } from 'kysely'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Db } from '../../../db/database.ts'
import type { HostDenial } from '../../host/egress.ts'

export interface ReportedPolicy {
  workspace_id: string
  epoch: number
  fence: number
  revision: string
  state: 'enforced' | 'failed'
}

/** Never overwrites the row of a later machine. */
export async function acknowledge(db: Db, { workspace_id, epoch, fence, revision, state }: ReportedPolicy, now: Date): Promise<void> {
  await sql`
    insert into workspace_egress (workspace_id, epoch, fence, revision, state, acknowledged_at)
    select id, ${epoch}, ${fence}, ${revision}, ${state}, ${now} from workspaces where id = ${workspace_id}
    on conflict (workspace_id) do update set
      epoch = excluded.epoch, fence = excluded.fence, revision = excluded.revision, state = excluded.state,
      acknowledged_at = excluded.acknowledged_at
    where excluded.epoch >= workspace_egress.epoch and excluded.fence >= workspace_egress.fence`.execute(db)
}

export async function fencingTokenOfHolder(db: Db, workspace_id: string): Promise<number | null> {
  const row = await db
    .selectFrom('workspace_holds as h')
    .innerJoin('operations as o', 'o.id', 'h.operation_id')
    .select('o.fence')
    .where('h.workspace_id', '=', workspace_id)
    .where('o.state', '=', 'running')
    .executeTakeFirst()
  return row?.fence ?? null
}

export async function idsOfProject(db: Db, cell_id: string, project_id: string): Promise<string[]> {
  const rows = await db
    .selectFrom('workspaces')
    .select('id')
    .where('project_id', '=', project_id)
    .where('cell_id', '=', cell_id)
    .where('observed_state', 'not in', ['suspended', 'deleted', 'failed'])
    .execute()
  return rows.map(({ id }) => id)
}

export interface ExecutionMachine {
  workspace_id: string
  epoch: number
  fence: number
}

/** @param of null: all workspaces */
export async function executionsOf(
  db: Db,
  cell_id: string,
  of: { workspace_ids: readonly string[] } | { project_id: string } | null,
): Promise<ExecutionMachine[]> {
  let found = db
    .selectFrom('machines')
    .select(['id as workspace_id', 'epoch', 'fence'])
    .where('kind', '=', 'execution')
    .where('cell_id', '=', cell_id)
  if (of !== null) found = 'project_id' in of ? found.where('project_id', '=', of.project_id) : found.where('id', 'in', of.workspace_ids)
  return found.execute()
}

export async function writeDenials(db: Db, workspace_id: string, denials: HostDenial[]): Promise<void> {
  const column = <K extends keyof HostDenial>(name: K) => denials.map((one) => one[name])
  await db.transaction().execute(async (tx) => {
    await sql`
      insert into egress_denials (workspace_id, protocol, target, port, first_at, name, address, count, last_at)
      select w.id, v.protocol, coalesce(v.address, v.name, ''), v.port, v.first_at, v.name, v.address, v.count, v.last_at
      from workspaces w, unnest(
        ${column('protocol')}::text[], ${column('port')}::integer[], ${column('first_at')}::timestamptz[], ${column('name')}::text[],
        ${column('address')}::text[], ${column('count')}::bigint[], ${column('last_at')}::timestamptz[]
      ) as v (protocol, port, first_at, name, address, count, last_at)
      where w.id = ${workspace_id}
      on conflict (workspace_id, protocol, target, port, first_at) do update set
        name = coalesce(excluded.name, egress_denials.name),
        count = greatest(excluded.count, egress_denials.count),
        last_at = greatest(excluded.last_at, egress_denials.last_at)`.execute(tx)
    await sql`
      delete from egress_denials d using (
        select protocol, target, port, first_at from egress_denials where workspace_id = ${workspace_id}
        order by last_at desc offset ${LIMITS.egress.denials_max}
      ) as old
      where d.workspace_id = ${workspace_id} and d.protocol = old.protocol and d.target = old.target and d.port = old.port
        and d.first_at = old.first_at`.execute(tx)
  })
}

export async function dropOldDenials(db: Db, last_before: Date, rows_max: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    delete from egress_denials where ctid in (select ctid from egress_denials where last_at < ${last_before} limit ${rows_max})`.execute(db)
  return Number(numAffectedRows)
}
