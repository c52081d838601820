import { sql } from 'kysely'
import { closePeriods } from '../../service/core/money/billing/close.ts'
import { serviceOrigin } from '../../service/core/changes/audit.ts'
import { periodOf } from '../../service/core/money/usage/period.ts'
import { closeLedger } from '../../service/cell/metering/sampler.ts'
import { addSamples } from '../../service/cell/metering/store.ts'
import { world, type World } from '../api/support.ts'
import { printSeconds, timed } from './harness.ts'

const WORKSPACES = 10_000
const HOUR_MS = 3600_000
const TIMES = 50
/** Machines that one statement of the sampler covers (MACHINES_A_STATEMENT). */
const MACHINES = 500
const RUN = '01920000-0000-7000-8000-000000000001'

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
  // Samples that are not final yet: a row for each workspace in each of three hours.
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
  const by = serviceOrigin('api', { ids: w.ids, now: new Date(last.ends_at.getTime() + 3 * HOUR_MS) })
  for (let at = 0; at < MACHINES; at += 1) await opened(w)
  const closing = { is_over: false }
  const beside: number[] = []
  const asking = (async () => {
    while (!closing.is_over) beside.push(await timed(() => opened(w)))
  })()
  const close_ms = await timed(() => closePeriods(api, by))
  closing.is_over = true
  await asking
  printSeconds('usage-close', `close of a month of ${WORKSPACES} organizations`, [close_ms], 60)
  printSeconds('usage-beside', 'an open of one of them beside it', beside, 0.25)
  await closeOfSamples(w, hour)
}

async function opened(w: World): Promise<void> {
  const { status } = await w.open(w.ids.next())
  if (status !== 202) throw new Error(`an open answered ${status}`)
}

/** Closes an hour, as each cell does every ten minutes; then the sampler ticks. */
async function closeOfSamples(w: World, hour: Date): Promise<void> {
  const { cell } = w.database
  const at = new Date(hour.getTime() + 2 * HOUR_MS)
  const clock = { now: () => at, monotonic_ms: () => 0 }
  const ms = await timed(() => closeLedger({ db: cell, clock }))
  printSeconds('usage-hours', `an hour of ${WORKSPACES} workspaces becomes entries`, [ms], 60 / 24)
  const rows = await w.database.superuser.selectFrom('workspaces').select('id').limit(MACHINES).execute()
  const read = rows.map(({ id }, fence) => ({
    ...{ workspace_id: id, epoch: 1, fence, memory_bytes: 2 ** 29, disk_bytes: 2 ** 30, received_bytes: 0, sent_bytes: 0 },
    cpu_usec: 0,
  }))
  const ticks: number[] = []
  for (let tick = 1; tick <= TIMES; tick += 1) {
    for (const one of read) one.cpu_usec += 1_234_567
    const now = new Date(at.getTime() + tick * 15_000)
    ticks.push(await timed(() => addSamples(cell, read, now, 30_000, { run: RUN, monotonic_ms: tick * 15_000 })))
  }
  printSeconds('usage-tick', `a reading of ${read.length} machines becomes samples`, ticks, 0.015)
}
