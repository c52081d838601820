import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import { deleteOld } from '../../db/delete-old.ts'
import type { MachineStats } from '../host/hostd.ts'
import { withMeterLock } from './meter-lock-store.ts'

export interface Mark {
  run: string
  monotonic_ms: number
}

const NO_MARK = { run: null, monotonic_ms: null }

export const STORED_ELAPSED_MS_MAX = 600_000

/**
 * Charges growth to the hour of `now`, and to the workspace's current organization and project. A repeated or late reading adds nothing.
 * @param elapsed_ms_max limits the time between two readings, so that hours without a cell are not charged
 * @param mark a monotonic time; without it the wall clock is used, which may have been set
 */
export async function addSamples(db: Db, read: MachineStats[], now: Date, elapsed_ms_max: number, mark?: Mark): Promise<number> {
  if (read.length === 0) return 0
  return withMeterLock(db, 'workspaces', namesOf(read), (tx) => writeSamples(tx, read, now, elapsed_ms_max, mark))
}

async function writeSamples(tx: Db, read: MachineStats[], now: Date, elapsed_ms_max: number, mark?: Mark): Promise<number> {
  const { run, monotonic_ms } = mark ?? NO_MARK
  const until = sql`${now}::timestamptz, ${run}::uuid, ${monotonic_ms === null ? null : Math.round(monotonic_ms)}::bigint`
  const { rows } = await sql`
    with seen as (
      select * from jsonb_to_recordset(${JSON.stringify(read)}::jsonb)
        as s(workspace_id uuid, fence bigint, cpu_usec bigint, memory_bytes bigint, disk_bytes bigint, received_bytes bigint, sent_bytes bigint, ran_ms bigint)
    ), before as (
      select c.* from usage_counters c join seen s using (workspace_id, fence) order by c.workspace_id, c.fence for update of c
    ), written as (
      insert into usage_counters as c (workspace_id, fence, cpu_usec, rx_bytes, tx_bytes, read_at, run, monotonic_ms)
      select workspace_id, fence, cpu_usec, received_bytes, sent_bytes, ${until} from seen order by workspace_id, fence
      on conflict (workspace_id, fence) do update set
        cpu_usec = greatest(c.cpu_usec, excluded.cpu_usec), rx_bytes = greatest(c.rx_bytes, excluded.rx_bytes),
        tx_bytes = greatest(c.tx_bytes, excluded.tx_bytes), read_at = excluded.read_at, run = excluded.run,
        monotonic_ms = excluded.monotonic_ms
    ), grown as (
      select s.workspace_id, w.organization_id, w.project_id,
        greatest(s.cpu_usec - coalesce(b.cpu_usec, 0), 0) as cpu_usec,
        greatest(s.received_bytes - coalesce(b.rx_bytes, 0), 0) as rx_bytes,
        greatest(s.sent_bytes - coalesce(b.tx_bytes, 0), 0) as tx_bytes,
        s.memory_bytes, s.disk_bytes,
        -- the first reading of a machine is of the time that it has run, and of none where nobody says for how long
        coalesce(usage_elapsed_ms(b.read_at, b.run, b.monotonic_ms, ${until}, ${elapsed_ms_max}),
          case when s.ran_ms is not null then least(greatest(s.ran_ms, 0), ${elapsed_ms_max}::bigint) end) as elapsed_ms,
        -- but its disk was there before: since it was last counted, with another machine or without any
        case when b.read_at is null then least(
          usage_elapsed_ms(t.disk_read_at, t.disk_run, t.disk_monotonic_ms, ${until}, ${STORED_ELAPSED_MS_MAX}),
          usage_elapsed_ms(l.read_at, l.run, l.monotonic_ms, ${until}, ${STORED_ELAPSED_MS_MAX})
        ) end as disk_elapsed_ms
      from seen s join workspaces w on w.id = s.workspace_id left join before b using (workspace_id, fence)
        left join usage_storage t using (workspace_id)
        left join lateral (${lastCounters}) l on b.read_at is null
    )
    insert into usage_samples as u
      (workspace_id, hour, organization_id, project_id, cpu_usec, memory_byte_ms, disk_byte_ms, rx_bytes, tx_bytes, sampled_ms)
    select workspace_id, date_trunc('hour', ${now}::timestamptz, 'UTC'), organization_id, project_id, cpu_usec,
      memory_bytes::numeric * coalesce(elapsed_ms, 0), disk_bytes::numeric * coalesce(greatest(elapsed_ms, disk_elapsed_ms), 0), rx_bytes, tx_bytes,
      coalesce(elapsed_ms, 0)
    from grown order by workspace_id
    on conflict (workspace_id, hour, organization_id, project_id) do update set
      cpu_usec = u.cpu_usec + excluded.cpu_usec, memory_byte_ms = u.memory_byte_ms + excluded.memory_byte_ms,
      disk_byte_ms = u.disk_byte_ms + excluded.disk_byte_ms, rx_bytes = u.rx_bytes + excluded.rx_bytes,
      tx_bytes = u.tx_bytes + excluded.tx_bytes, sampled_ms = u.sampled_ms + excluded.sampled_ms, is_open = true
    returning u.workspace_id`.execute(tx)
  return rows.length
}

const namesOf = (read: readonly { workspace_id: string }[]) => read.map(({ workspace_id }) => workspace_id)

export const lastCounters = sql`
  select c.read_at, c.run, c.monotonic_ms from usage_counters c where c.workspace_id = s.workspace_id order by c.read_at desc limit 1`

export interface Stored {
  workspace_id: string
  /** null: the machine's samples include the disk, or it was not measured. */
  disk_bytes: number | null
  checkpoint_bytes: number
}

export async function addStored(db: Db, read: Stored[], now: Date, mark: Mark): Promise<number> {
  if (read.length === 0) return 0
  return withMeterLock(db, 'workspaces', namesOf(read), (tx) => writeStored(tx, read, now, mark))
}

async function writeStored(tx: Db, read: Stored[], now: Date, { run, monotonic_ms }: Mark): Promise<number> {
  const until = sql`${now}::timestamptz, ${run}::uuid, ${Math.round(monotonic_ms)}::bigint`
  const { rows } = await sql`
    with seen as (
      select * from jsonb_to_recordset(${JSON.stringify(read)}::jsonb) as s(workspace_id uuid, disk_bytes bigint, checkpoint_bytes bigint)
    ), before as (
      select t.* from usage_storage t join seen s using (workspace_id) order by t.workspace_id for update of t
    ), written as (
      insert into usage_storage as t (workspace_id, read_at, run, monotonic_ms, disk_read_at, disk_run, disk_monotonic_ms)
      select workspace_id, ${until}, v.* from seen
        left join lateral (select * from (values (${until})) as v(disk_read_at, disk_run, disk_monotonic_ms)) v on disk_bytes is not null
      order by workspace_id
      on conflict (workspace_id) do update set read_at = excluded.read_at, run = excluded.run, monotonic_ms = excluded.monotonic_ms,
        disk_read_at = coalesce(excluded.disk_read_at, t.disk_read_at), disk_run = coalesce(excluded.disk_run, t.disk_run),
        disk_monotonic_ms = coalesce(excluded.disk_monotonic_ms, t.disk_monotonic_ms)
    ), grown as (
      select s.*, w.organization_id, w.project_id,
        usage_elapsed_ms(b.read_at, b.run, b.monotonic_ms, ${until}, ${STORED_ELAPSED_MS_MAX}) as elapsed_ms,
        -- since its disk was last counted, with a machine or without
        least(
          usage_elapsed_ms(b.disk_read_at, b.disk_run, b.disk_monotonic_ms, ${until}, ${STORED_ELAPSED_MS_MAX}),
          usage_elapsed_ms(l.read_at, l.run, l.monotonic_ms, ${until}, ${STORED_ELAPSED_MS_MAX})
        ) as disk_elapsed_ms
      from seen s join workspaces w on w.id = s.workspace_id left join before b using (workspace_id)
        left join lateral (${lastCounters}) l on true
    )
    insert into usage_samples as u (workspace_id, hour, organization_id, project_id, disk_byte_ms, checkpoint_byte_ms)
    select workspace_id, date_trunc('hour', ${now}::timestamptz, 'UTC'), organization_id, project_id,
      coalesce(disk_bytes::numeric * disk_elapsed_ms, 0), coalesce(checkpoint_bytes::numeric * elapsed_ms, 0)
    from grown where coalesce(disk_bytes, 0) + checkpoint_bytes > 0 order by workspace_id
    on conflict (workspace_id, hour, organization_id, project_id) do update set
      disk_byte_ms = u.disk_byte_ms + excluded.disk_byte_ms, checkpoint_byte_ms = u.checkpoint_byte_ms + excluded.checkpoint_byte_ms, is_open = true
    returning u.workspace_id`.execute(tx)
  return rows.length
}

/** Leaves out the checkpoint of a hibernated machine, because it is metered as memory. */
export async function readStored(db: Db, cell_id: string): Promise<{ workspace_id: string; checkpoint_bytes: number }[]> {
  const { rows } = await sql<{ workspace_id: string; checkpoint_bytes: number }>`
    select w.id as workspace_id, coalesce(sum(c.size_bytes), 0)::bigint as checkpoint_bytes
    from workspaces w left join checkpoints c on c.workspace_id = w.id and c.deleted_at is null and c.kind <> 'parked'
    where w.cell_id = ${cell_id} and w.observed_state <> 'deleted' and w.deleted_at is null
    group by w.id order by w.id`.execute(db)
  return rows
}

export type HibernatedCounters = Omit<MachineStats, 'disk_bytes'>

/**
 * Hibernated machines are metered as running, with their saved memory (Cell, "Parking"). The residency's fencing token identifies one
 * hibernation, as a machine's identifies one run.
 */
export async function readHibernated(db: Db, cell_id: string): Promise<HibernatedCounters[]> {
  const rows = await db
    .selectFrom('workspaces as w')
    .innerJoin('checkpoints as c', 'c.id', 'w.checkpoint_id')
    .select(['w.id as workspace_id', 'w.ownership_epoch as epoch', 'w.residency_fence as fence', 'c.size_bytes as memory_bytes'])
    .where('w.cell_id', '=', cell_id)
    .where('w.observed_state', '=', 'running')
    .where('w.residency', '=', 'hibernated')
    .execute()
  return rows.map((row) => ({ ...row, cpu_usec: 0, received_bytes: 0, sent_bytes: 0 }))
}

/** Counters of other cells' workspaces are not removed. Otherwise a cell that returns would count its machines from zero. */
export async function dropOldSamples(db: Db, cell_id: string, samples_before: Date, counters_before: Date): Promise<number> {
  const of_others = (table: string) =>
    sql`exists (select from workspaces w where w.id = ${sql.ref(`${table}.workspace_id`)} and w.cell_id <> ${cell_id})`
  const old = (table: string) => sql`read_at < ${counters_before} and not ${of_others(table)}`
  const samples = await deleteOld(db, 'usage_samples', sql`hour < ${samples_before} and not is_open`)
  const counters = await deleteOld(db, 'usage_counters', old('usage_counters'))
  return samples + counters + (await deleteOld(db, 'usage_storage', old('usage_storage')))
}
