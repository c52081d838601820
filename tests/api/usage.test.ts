import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { LIMITS } from '../../contract/limits.ts'
import { METERS } from '../../contract/schemas/usage.ts'
import { world, type Answer, type Tenant, type World } from './support.ts'

let w: World
let of_a: string
let of_a2: string
before(async () => {
  w = await world()
  of_a = await w.running('one')
  of_a2 = w.ids.next() // this workspace has no row
})
after(() => w[Symbol.asyncDispose]())

const GIB_SECOND = 2 ** 30 * 1000
/** All tests share this time, since an hour may end while the tests run. */
const NOW = new Date()
const hourAgo = (hours: number) => new Date(Math.floor(NOW.getTime() / 3600_000 - hours) * 3600_000)
const query = (values: Record<string, string>) => `?${new URLSearchParams(values).toString()}`

async function final(tenant: Tenant, subject_id: string, hour: Date, cpu_seconds: number): Promise<void> {
  const { organization_id, project_id } = tenant
  const row = { organization_id, project_id, hour, cpu_seconds }
  await w.database.superuser
    .insertInto('usage_hours')
    .values(row)
    .onConflict((on) => on.doNothing())
    .execute()
  const { superuser: db } = w.database
  const cpu_usec = cpu_seconds * 1e6
  await sql`insert into usage_samples (workspace_id, hour, organization_id, project_id, cpu_usec)
    values (${subject_id}, ${hour}, ${organization_id}, ${project_id}, ${cpu_usec})`.execute(db)
  await w.database.superuser
    .insertInto('usage_entries')
    .values({ ...row, subject_kind: 'workspace', subject_id, entry: 0, written_at: hour })
    .execute()
  await db
    .updateTable('usage_samples')
    .set({ is_open: false, entries: 1 })
    .where('workspace_id', '=', subject_id)
    .where('hour', '=', hour)
    .execute()
}

async function open({ organization_id, project_id }: Tenant, workspace_id: string, hour: Date, cpu_usec: number): Promise<void> {
  await sql`insert into usage_samples (workspace_id, hour, organization_id, project_id, cpu_usec, memory_byte_ms, disk_byte_ms, checkpoint_byte_ms, rx_bytes, tx_bytes)
    values (${workspace_id}, ${hour}, ${organization_id}, ${project_id}, ${cpu_usec}, ${3.9 * GIB_SECOND}, ${GIB_SECOND}, ${GIB_SECOND}, 7, 8)`.execute(
    w.database.superuser,
  )
}

const unitsOf = ({ body }: Answer, meter: string): [string, number][] =>
  body.series
    .find((one: { meter: string }) => one.meter === meter)
    .points.map(({ at, units }: { at: string; units: number }) => [at, units])

test('a series has every hour from first to last, zeros too; open hours count as final ones; a key sees its project', async () => {
  const { a, a2 } = w
  await final(a, of_a, hourAgo(5), 100)
  await final(a2, of_a2, hourAgo(5), 1000)
  await open(a, of_a, hourAgo(1), 2_999_999)
  const range = { from: hourAgo(5).toISOString(), to: NOW.toISOString(), granularity: 'hour' }
  const path = `/v1/organizations/${a.organization_id}/usage`
  const own = await w.get(path + query(range))
  assert.equal(own.status, 200, JSON.stringify(own.body))
  assert.deepEqual(
    unitsOf(own, 'cpu_seconds'),
    [5, 4, 3, 2, 1, 0].map((hours) => [hourAgo(hours).toISOString(), { 5: 100, 1: 2 }[hours] ?? 0]),
  )
  assert.deepEqual(own.body.totals, {
    cpu_seconds: 102,
    memory_gib_seconds: 3,
    storage_gib_seconds: 2,
    egress_bytes: 8,
    ingress_bytes: 7,
    volume_storage_gib_seconds: 0,
  })
  assert.deepEqual([own.body.from, own.body.to], [hourAgo(5).toISOString(), hourAgo(0).toISOString()])
  const { final_through } = own.body.measurement
  assert.ok(
    [0, 1].some((later) => final_through === hourAgo(LIMITS.usage.final_after_hours - later).toISOString()),
    final_through,
  )
  const other = await w.get(path + query({ ...range, meter: 'cpu_seconds' }), { as: a2.key })
  assert.deepEqual([other.body.series.length, other.body.totals], [1, { cpu_seconds: 1000 }])
  const [of_workspace, filtered, foreign] = await Promise.all([
    w.get(`/v1/workspaces/${of_a}/usage${query(range)}`),
    w.get(path + query({ ...range, workspace_id: of_a })),
    w.get(path + query({ ...range, workspace_id: of_a2 })),
  ])
  assert.deepEqual([of_workspace.body, filtered.body.totals.cpu_seconds, foreign.body.totals.cpu_seconds], [filtered.body, 102, 0])
  assert.equal((await w.get(path + query({ project_id: a2.project_id }))).status, 404)
})

test('the default range is the billing period by day, both bounds included, and a day begins at midnight in UTC', async () => {
  const { status, body } = await w.get(`/v1/workspaces/${of_a}/usage`)
  const now = w.clock.now()
  assert.deepEqual(
    [status, body.granularity, body.from],
    [200, 'day', new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth())).toISOString()],
  )
  assert.equal(body.series.length, METERS.length)
  for (const { points } of body.series) assert.equal(points.length, now.getUTCDate())
  const winter = await w.get(`/v1/workspaces/${of_a}/usage${query({ from: '2026-03-28T23:30:00+01:00', to: '2026-03-30T00:00:00+02:00' })}`)
  assert.deepEqual(unitsOf(winter, 'cpu_seconds'), [
    ['2026-03-28T00:00:00.000Z', 0],
    ['2026-03-29T00:00:00.000Z', 0],
  ])
})

test("a range that is too long, ends before it begins or is invalid is refused, with the parameter's name", async () => {
  const path = `/v1/organizations/${w.a.organization_id}/usage`
  const refusals: [Record<string, string>, string][] = [
    [{ from: '2026-01-01T00:00:00Z', to: '2026-02-01T00:00:01Z', granularity: 'hour' }, 'from'],
    [{ from: '2025-01-01T00:00:00Z', to: '2026-02-05T00:00:01Z' }, 'from'],
    [{ from: '2026-01-02T00:00:00Z', to: '2026-01-01T00:00:00Z' }, 'from'],
    [{ from: '2200-01-02T00:00:00Z' }, 'from'],
    [{ from: 'yesterday' }, 'from'],
    [{ from: '2026-01-01T00:00:00Z', to: '2026-01-30T23:59:60Z' }, 'to'], // a leap second
    [{ from: '2026-02-30T00:00:00Z', to: '2026-03-01T00:00:00Z' }, 'from'],
    [{ granularity: 'minute' }, 'granularity'],
    [{ meter: 'gold' }, 'meter'],
    [{ workspace_id: of_a, volume_id: of_a }, 'volume_id'],
  ]
  for (const [values, name] of refusals) {
    const { status, body } = await w.get(path + query(values))
    assert.deepEqual([status, body.error.code, body.error.details.issues[0].path], [422, 'validation_failed', name], JSON.stringify(values))
  }
  const whole = await w.get(path + query({ from: '2026-01-01T00:00:00Z', to: '2026-02-01T00:00:00Z', granularity: 'hour' }))
  assert.deepEqual([whole.status, whole.body.series[0].points.length], [200, 31 * 24 + 1])
})

test('the summary is of the current period: usage of the key, allowances of the organization', async () => {
  const { a, b } = w
  const { superuser: db } = w.database
  const begins = new Date(Date.UTC(w.clock.now().getUTCFullYear(), w.clock.now().getUTCMonth()))
  await final(a, of_a, new Date(begins.getTime() - 3600_000), 5_000_000) // belongs to the previous period
  await final(a, w.ids.next(), begins, 0)
  await db.updateTable('plans').set({ cpu_hours: 2, ram_gib_hours: null }).execute()
  await db.updateTable('cells').set({ measured_at: w.clock.now() }).execute()
  const { status, body } = await w.get(`/v1/organizations/${a.organization_id}/usage/summary`)
  assert.equal(status, 200, JSON.stringify(body))
  assert.equal(body.period.starts_at, begins.toISOString())
  assert.ok(body.usage.cpu_seconds < 5000)
  const [cpu, memory] = body.allowances
  assert.deepEqual([cpu.allowance, cpu.state, cpu.included, cpu.included_meter_units, cpu.unit], ['cpu_hours', 'within', 2, 7200, 'hours'])
  assert.deepEqual([memory.allowance, memory.state, memory.included], ['ram_gib_hours', 'unlimited', null])
  assert.deepEqual([body.allowance_exhausted, body.exhausted_reason, body.spend_cap.state], [false, null, 'unavailable'])
  assert.ok(body.measurement.measured_through !== null)
  assert.equal((await w.get(`/v1/organizations/${b.organization_id}/usage/summary`)).status, 404)
  assert.equal((await w.get(`/v1/workspaces/${of_a}/usage`, { as: b.key })).status, 404)
})
