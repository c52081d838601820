import { sql } from 'kysely'
import { closePeriods } from '../../service/core/billing/close.ts'
import { byService } from '../../service/core/changes/audit.ts'
import { periodOf } from '../../service/core/usage/period.ts'
import { world } from '../api/support.ts'
import { printSeconds, timed } from './harness.ts'

const WORKSPACES = 10_000
const HOUR_MS = 3600_000
const TIMES = 50

/** The summary of an organization with 10,000 workspaces and a year of usage, and the close of a month of 10,000 organizations. */
export async function usageRows(): Promise<void> {
  await using w = await world({ check: false, caller_requests_per_minute: 0, edge_requests_per_minute: 0 })
  const { superuser: db, api } = w.database
  const { organization_id, project_id } = w.a
  const now = w.clock.now()
  const hour = new Date(Math.floor(now.getTime() / HOUR_MS) * HOUR_MS)
  await sql`update plans set currency = 'EUR', price_minor = 5000, cpu_hours = 10, cpu_hour_minor = 1`.execute(db)
  await sql`insert into usage_hours (organization_id, project_id, hour, cpu_seconds, memory_gib_seconds, storage_gib_seconds)
    select ${organization_id}, ${project_id}, ${hour}::timestamptz - n * interval '1 hour', 1000, 1000, 1000 from generate_series(3, 8760) n`.execute(
    db,
  )
  // What is not final yet: a row for each workspace in each of the last three hours.
  await sql`insert into usage_samples (workspace_id, hour, organization_id, project_id, cpu_usec, memory_byte_ms, disk_byte_ms, checkpoint_byte_ms, rx_bytes, tx_bytes)
    select md5(n::text)::uuid, ${hour}::timestamptz - h * interval '1 hour', ${organization_id}, ${project_id}, 1e7, 1e15, 1e15, 0, 5, 5
    from generate_series(1, ${WORKSPACES}) n, generate_series(0, 2) h`.execute(db)
  await sql`analyze`.execute(db)
  const summary = async () => {
    const { status } = await w.get(`/v1/organizations/${organization_id}/usage/summary`)
    if (status !== 200) throw new Error(`the summary answered ${status}`)
  }
  for (let warm_up = 0; warm_up < 10; warm_up += 1) await summary()
  const samples: number[] = []
  for (let at = 0; at < TIMES; at += 1) samples.push(await timed(summary))
  printSeconds('usage-summary', `summary of ${WORKSPACES} workspaces with a year of usage`, samples, 0.02)

  const last = periodOf(new Date(periodOf(now).starts_at.getTime() - 1))
  await sql`insert into organizations (id, name, slug, plan_id, created_at)
    select md5('g' || n)::uuid, n, 'bench-' || n, (select plan_id from organizations where id = ${organization_id}), ${last.starts_at}
    from generate_series(1, ${WORKSPACES}) n`.execute(db)
  await sql`insert into usage_hours (organization_id, hour, cpu_seconds)
    select id, ${last.starts_at}::timestamptz + n * interval '1 hour', 100 from organizations, generate_series(1, 24) n where slug like 'bench-%'`.execute(
    db,
  )
  await sql`analyze`.execute(db)
  const by = byService('api', { ids: w.ids, now: new Date(last.ends_at.getTime() + 3 * HOUR_MS) })
  const close_ms = await timed(() => closePeriods(api, by))
  printSeconds('usage-close', `close of a month of ${WORKSPACES} organizations`, [close_ms], 60)
}
