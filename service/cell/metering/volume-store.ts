import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import { deleteOld } from '../../db/delete-old.ts'
import { withMeterLock } from './meter-lock-store.ts'
import { STORED_ELAPSED_MS_MAX, type Mark } from './store.ts'

export interface StoredVolume {
  volume_id: string
  stored_bytes: number
}

export async function readVolumesOf(db: Db, cell_id: string): Promise<string[]> {
  const rows = await db
    .selectFrom('volumes')
    .select('id')
    .where('cell_id', '=', cell_id)
    .where('state', 'in', ['available', 'deleting'])
    .orderBy('id')
    .execute()
  return rows.map(({ id }) => id)
}

/** The first reading of a volume adds no usage. */
export async function addStoredVolumes(db: Db, read: StoredVolume[], now: Date, mark: Mark): Promise<number> {
  if (read.length === 0) return 0
  const ids = read.map(({ volume_id }) => volume_id)
  return withMeterLock(db, 'volumes', ids, (tx) => writeStoredVolumes(tx, read, now, mark))
}

async function writeStoredVolumes(tx: Db, read: StoredVolume[], now: Date, { run, monotonic_ms }: Mark): Promise<number> {
  const until = sql`${now}::timestamptz, ${run}::uuid, ${Math.round(monotonic_ms)}::bigint`
  const { rows } = await sql`
    with seen as (
      select s.* from jsonb_to_recordset(${JSON.stringify(read)}::jsonb) as s(volume_id uuid, stored_bytes bigint)
        join volumes v on v.id = s.volume_id
    ), before as (
      select r.* from volume_usage_readings r join seen s using (volume_id) order by r.volume_id for update of r
    ), written as (
      insert into volume_usage_readings (volume_id, read_at, run, monotonic_ms)
      select volume_id, ${until} from seen order by volume_id
      on conflict (volume_id) do update set read_at = excluded.read_at, run = excluded.run, monotonic_ms = excluded.monotonic_ms
    ), grown as (
      select s.*, v.organization_id, v.project_id,
        coalesce(usage_elapsed_ms(b.read_at, b.run, b.monotonic_ms, ${until}, ${STORED_ELAPSED_MS_MAX}), 0) as elapsed_ms
      from seen s join volumes v on v.id = s.volume_id left join before b using (volume_id)
    )
    insert into volume_usage_samples as u (volume_id, hour, organization_id, project_id, stored_byte_ms, sampled_ms)
    select volume_id, date_trunc('hour', ${now}::timestamptz, 'UTC'), organization_id, project_id, stored_bytes::numeric * elapsed_ms, elapsed_ms
    from grown order by volume_id
    on conflict (volume_id, hour) do update set
      stored_byte_ms = u.stored_byte_ms + excluded.stored_byte_ms, sampled_ms = u.sampled_ms + excluded.sampled_ms, is_open = true
    returning u.volume_id`.execute(tx)
  return rows.length
}

export async function dropOldVolumeSamples(db: Db, before: Date): Promise<number> {
  return deleteOld(db, 'volume_usage_samples', sql`hour < ${before} and not is_open`)
}
