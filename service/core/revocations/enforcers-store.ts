import { sql } from 'kysely'
import type { RevocationScope } from './messages.ts'
import { idOf } from './messages.ts'
import type { Db } from '../../db/database.ts'

/** The cell's lock of service/cell/operations/ownership.ts, a 64-bit hash that pg_locks shows in two halves. */
const LOCKED = sql`exists (
  select from pg_locks l where l.locktype = 'advisory' and l.granted and l.objsubid = 1
    and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('berth cell ' || cells.id, 0))`

export interface EnforcerQuery {
  scope: RevocationScope
  payload: string
  /** A cell last seen before this time, and without its lock, admits no caller and need not answer. */
  seen_since: Date
  listener_name: string
}

/** @returns the processes that must answer. */
export async function askEnforcers(db: Db, { scope, payload, seen_since, listener_name }: EnforcerQuery): Promise<string[]> {
  const workspace_id = idOf(scope, 'workspace')
  const of_workspace = sql`select cell_id from workspaces where id = ${workspace_id}::uuid`
  const { rows } = await sql<{ by: string }>`
    with cell as materialized (
      select id, pg_notify(cell_channel('berth_revocation', id), ${payload}) from cells
      where (seen_at > ${seen_since} or ${LOCKED}) and (${workspace_id}::uuid is null or id = (${of_workspace}))
    ), api as materialized (
      select pid from pg_stat_activity where datname = current_database() and application_name = ${listener_name}
    ), asked as materialized (select pg_notify('berth_revocation_api', ${payload}))
    select 'cell:' || id as by from cell
    union all select 'api:' || pid from api, asked where ${scope} = 'everywhere'`.execute(db)
  return rows.map(({ by }) => by)
}
