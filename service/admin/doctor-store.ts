import { sql } from 'kysely'
import { keyUses, type KeyUse } from '../core/secrets/rewrap-store.ts'
import type { Db } from '../db/database.ts'
import { readUsageFacts, type UsageFacts } from './doctor-usage.ts'

export interface StoredFacts {
  installation: string
  server_version: string
  now: Date
  cells: { id: string; name: string; engine: string | null; seen_at: Date | null; owner: string | null }[]
  workspaces: {
    id: string
    observed_state: string
    ownership_epoch: number
    checkpoint_id: string | null
    disk: string | null
    active: boolean
  }[]
  states: { state: string; count: number }[]
  /** `short`: the resources for which the operation waits. */
  operations: { id: string; kind: string; state: string; age_seconds: number; attempt: number; short: string[] | null }[]
  stale_holds: string[]
  checkpoints: { id: string; workspace_id: string; engine: string }[]
  unnamed_layers: { cell_name: string; count: number; bytes: number }[]
  mails: { waiting: number; tried: number; oldest_seconds: number; given_up: number }
  usage: UsageFacts
  /** Newest first. */
  sealing_keys: KeyUse[]
}

export const ROWS_MAX = 50_000

export async function readStored(db: Db): Promise<StoredFacts> {
  const one = async <T>(query: ReturnType<typeof sql<T>>): Promise<T[]> => (await query.execute(db)).rows
  const [about] = await one(
    sql<{ installation: string; server_version: string; now: Date }>`
      select id as installation, current_setting('server_version') as server_version, now() as now from installation`,
  )
  if (about === undefined) throw new Error('The database said nothing')
  return {
    ...about,
    // Holders of the advisory lock of service/cell/operations/ownership.ts: a 64-bit hash in two halves.
    cells: await one(sql`
      select c.id, c.name, c.engine, c.seen_at, (
        select a.application_name from pg_locks l join pg_stat_activity a using (pid)
        where l.locktype = 'advisory' and l.granted and l.objsubid = 1
          and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('berth cell ' || c.id, 0) limit 1
      ) as owner
      from cells c order by c.name`),
    workspaces: await one(sql`
      select w.id, w.observed_state, w.ownership_epoch, w.checkpoint_id, w.disk, exists (
        select from operations o where o.completed_at is null and (o.workspace_id = w.id or o.source_workspace_id = w.id)
      ) as active
      from workspaces w where w.observed_state <> 'deleted' order by w.id limit ${ROWS_MAX}`),
    states: await one(sql`select observed_state as state, count(*)::integer as count from workspaces group by 1 order by 1`),
    operations: await one(sql`
      select id, kind, state, attempt, extract(epoch from now() - created_at)::float8 as age_seconds,
        case when state = 'capacity_pending' then error #> '{details,short}' end as short
      from operations where completed_at is null order by created_at limit 1000`),
    stale_holds: (
      await one(sql<{ workspace_id: string }>`
        select h.workspace_id from workspace_holds h join operations o on o.id = h.operation_id where o.completed_at is not null`)
    ).map(({ workspace_id }) => workspace_id),
    checkpoints: await one(sql`select id, workspace_id, engine from checkpoints where deleted_at is null order by id limit ${ROWS_MAX}`),
    unnamed_layers: await one(sql`
      select c.name as cell_name, count(*)::integer as count, sum(u.size_bytes)::float8 as bytes
      from unnamed_layers u join cells c on c.id = u.cell_id group by c.name`),
    mails: await readMails(db),
    usage: await readUsageFacts(db, about.now),
    sealing_keys: await keyUses(db),
  }
}

async function readMails(db: Db): Promise<StoredFacts['mails']> {
  const { rows } = await sql<StoredFacts['mails']>`
    select count(*) filter (where waits)::integer as waiting, count(*) filter (where waits and last_error is not null)::integer as tried,
      coalesce(max(extract(epoch from now() - created_at)) filter (where waits), 0)::float8 as oldest_seconds,
      count(*) filter (where given_up_at is not null)::integer as given_up
    from (select *, sent_at is null and given_up_at is null as waits from mails) m`.execute(db)
  return rows[0] ?? { waiting: 0, tried: 0, oldest_seconds: 0, given_up: 0 }
}
