import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { MachineStats } from '../links/hostd.ts'

const BATCH = 1000

/**
 * Adds what counters grew by since they were last read, each machine's to the hour of `now`. Read again they add nothing; counters
 * that are lower than the last reading came late and change nothing.
 * @param elapsed_ms_max what may lie between two readings: a clock that jumped, or hours without a cell, count for no more.
 * @returns how many machines were read.
 */
export async function addSamples(db: Db, read: MachineStats[], now: Date, elapsed_ms_max: number): Promise<number> {
  if (read.length === 0) return 0
  const { rows } = await sql`
    with seen as (
      select * from jsonb_to_recordset(${JSON.stringify(read)}::jsonb)
        as s(workspace_id uuid, fence bigint, cpu_usec bigint, memory_bytes bigint, disk_bytes bigint, rx_bytes bigint, tx_bytes bigint)
    ), before as (
      select c.* from usage_counters c join seen s using (workspace_id, fence) order by c.workspace_id, c.fence for update of c
    ), written as (
      insert into usage_counters as c (workspace_id, fence, cpu_usec, rx_bytes, tx_bytes, read_at)
      select workspace_id, fence, cpu_usec, rx_bytes, tx_bytes, ${now} from seen order by workspace_id, fence
      on conflict (workspace_id, fence) do update set
        cpu_usec = greatest(c.cpu_usec, excluded.cpu_usec), rx_bytes = greatest(c.rx_bytes, excluded.rx_bytes),
        tx_bytes = greatest(c.tx_bytes, excluded.tx_bytes), read_at = excluded.read_at
    ), grown as (
      select s.workspace_id, w.organization_id,
        greatest(s.cpu_usec - coalesce(b.cpu_usec, 0), 0) as cpu_usec,
        greatest(s.rx_bytes - coalesce(b.rx_bytes, 0), 0) as rx_bytes,
        greatest(s.tx_bytes - coalesce(b.tx_bytes, 0), 0) as tx_bytes,
        s.memory_bytes, s.disk_bytes,
        -- the first reading of a machine is of no time: it may have begun just before
        least(greatest(extract(epoch from ${now}::timestamptz - b.read_at) * 1000, 0), ${elapsed_ms_max})::bigint as elapsed_ms
      from seen s join workspaces w on w.id = s.workspace_id left join before b using (workspace_id, fence)
    )
    insert into usage_samples as u
      (workspace_id, hour, organization_id, cpu_usec, memory_byte_ms, disk_byte_ms, rx_bytes, tx_bytes, sampled_ms)
    select workspace_id, date_trunc('hour', ${now}::timestamptz, 'UTC'), organization_id, cpu_usec,
      memory_bytes::numeric * coalesce(elapsed_ms, 0), disk_bytes::numeric * coalesce(elapsed_ms, 0), rx_bytes, tx_bytes, coalesce(elapsed_ms, 0)
    from grown order by workspace_id
    on conflict (workspace_id, hour) do update set
      cpu_usec = u.cpu_usec + excluded.cpu_usec, memory_byte_ms = u.memory_byte_ms + excluded.memory_byte_ms,
      disk_byte_ms = u.disk_byte_ms + excluded.disk_byte_ms, rx_bytes = u.rx_bytes + excluded.rx_bytes,
      tx_bytes = u.tx_bytes + excluded.tx_bytes, sampled_ms = u.sampled_ms + excluded.sampled_ms
    returning u.workspace_id`.execute(db)
  return rows.length
}

export type Sleeping = Omit<MachineStats, 'disk_bytes'>

/**
 * Machines that are hibernated, as if they had counters: their workspaces run, and are metered as such with the memory that was saved
 * (Cell, "Parking"). The fence of the move names the time in which it sleeps, as a machine's names its own. Their disks are the
 * host's to measure: snapshots of one that sleeps come and go.
 */
export async function readSleepers(db: Db, cell_id: string): Promise<Sleeping[]> {
  const rows = await db
    .selectFrom('workspaces as w')
    .innerJoin('checkpoints as c', 'c.id', 'w.checkpoint_id')
    .select(['w.id as workspace_id', 'w.ownership_epoch as epoch', 'w.residency_fence as fence', 'c.size_bytes as memory_bytes'])
    .where('w.cell_id', '=', cell_id)
    .where('w.observed_state', '=', 'running')
    .where('w.residency', '=', 'hibernated')
    .execute()
  return rows.map((row) => ({ ...row, cpu_usec: 0, rx_bytes: 0, tx_bytes: 0 }))
}

/** Samples and counters whose time is over, a batch of each. */
export async function dropOldSamples(db: Db, samples_before: Date, counters_before: Date): Promise<number> {
  const samples = await sql`
    delete from usage_samples where (workspace_id, hour) in (
      select workspace_id, hour from usage_samples where hour < ${samples_before} limit ${BATCH}
    ) returning workspace_id`.execute(db)
  const counters = await sql`
    delete from usage_counters where (workspace_id, fence) in (
      select workspace_id, fence from usage_counters where read_at < ${counters_before} limit ${BATCH}
    ) returning workspace_id`.execute(db)
  return samples.rows.length + counters.rows.length
}
