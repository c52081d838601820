import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { sql } from 'kysely'
import { ENTITLEMENTS } from '../../contract/schemas/plans.ts'
import { seeder, world, type World } from './support.ts'

let w: World
let owner: string
before(async () => {
  w = await world()
  owner = (await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'owner')).token
})
after(() => w[Symbol.asyncDispose]())
beforeEach(() => priced())

const PRICES = { currency: 'EUR', price_minor: 5000, cpu_hours: 10, ram_gib_hours: null, cpu_hour_minor: 10, ram_gib_hour_minor: null }
const path = (name: string) => `/v1/organizations/${w.a.organization_id}/${name}`
const put = (body: object, headers: Record<string, string> = {}) => w.call('PUT', path('spend-policy'), { as: owner, body, headers })

async function priced(change: Partial<typeof PRICES> & { is_listed?: boolean } = {}): Promise<void> {
  await w.database.superuser
    .updateTable('plans')
    .set({ ...PRICES, ...change })
    .where('slug', '=', 'unlimited')
    .execute()
}

async function use(cpu_hours: number): Promise<void> {
  const hour = new Date(Math.floor(w.clock.now().getTime() / 3600_000) * 3600_000)
  await sql`delete from usage_hours where organization_id = ${w.a.organization_id}`.execute(w.database.superuser)
  const { organization_id, project_id } = w.a
  await w.database.superuser
    .insertInto('usage_hours')
    .values({ organization_id, project_id, hour, cpu_seconds: cpu_hours * 3600 })
    .execute()
}

test('overage is off until a person turns it on with a cap, each change is a version, and a stale one is refused', async () => {
  const first = await w.get(path('spend-policy'))
  assert.deepEqual(first.body, {
    organization_id: w.a.organization_id,
    overage_available: true,
    overage_enabled: false,
    overage_state: 'off',
    spend_cap_minor: null,
    spend_cap_min_minor: 100,
    spend_cap_max_minor: 5000,
    rates: { cpu_hour_minor: 10, ram_gib_hour_minor: null },
    currency: 'EUR',
    alert_thresholds_percent: [50, 80, 100],
    version: 0,
    updated_at: null,
  })
  const on = await put({ overage_enabled: true, spend_cap_minor: 1000 }, { 'if-match': '0' })
  assert.deepEqual([on.status, on.body.overage_state, on.body.version, on.headers.get('etag')], [200, 'on', 1, '"1"'])
  const stale = await put({ overage_enabled: false }, { 'if-match': '"0"' })
  assert.deepEqual([stale.status, stale.body.error.details], [409, { reason: 'version_mismatch', current_version: 1 }])
  await use(15)
  const { body } = await w.get(path('spend'))
  assert.deepEqual(
    [body.spend_cap.state, body.spend_cap.charges_minor, body.spend_cap.remaining_minor, body.spend_cap.lines.length],
    ['accruing', 50, 950, 1],
  )
  const summary = await w.get(path('usage/summary'))
  assert.deepEqual(
    [summary.body.spend_cap.charges_minor, summary.body.allowances[0].state, summary.body.allowance_exhausted],
    [50, 'overage', false],
  )
  const off = await put({ overage_enabled: false })
  assert.deepEqual([off.status, off.body.overage_state, off.body.spend_cap_minor, off.body.version], [200, 'off', 1000, 2])
  assert.equal((await w.get(path('spend'))).body.spend_cap.charges_minor, 50)
})

test("a cap that is missing, too small, above the plan's price or below the charged amount is refused without a change", async () => {
  await use(0)
  await sql`delete from spend_policies`.execute(w.database.superuser)
  const refusal = async (body: object) => {
    const { status, body: answer } = await put(body)
    assert.deepEqual([status, answer.error.code], [422, 'validation_failed'], JSON.stringify(answer))
    return answer.error.details
  }
  assert.deepEqual(await refusal({ overage_enabled: true }), { reason: 'spend_cap_required', field: 'spend_cap_minor' })
  assert.deepEqual(await refusal({ overage_enabled: true, spend_cap_minor: 99 }), {
    reason: 'spend_cap_below_minimum',
    field: 'spend_cap_minor',
    min_minor: 100,
  })
  assert.deepEqual(await refusal({ overage_enabled: true, spend_cap_minor: 5001 }), {
    reason: 'spend_cap_above_plan_price',
    field: 'spend_cap_minor',
    max_minor: 5000,
  })
  assert.equal((await put({ overage_enabled: true, spend_cap_minor: 5000 })).status, 200)
  await use(40)
  assert.deepEqual(await refusal({ overage_enabled: true, spend_cap_minor: 299 }), {
    reason: 'spend_cap_below_charges',
    field: 'spend_cap_minor',
    charges_minor: 300,
  })
  assert.equal((await put({ overage_enabled: true, spend_cap_minor: 300 })).status, 200)
  await priced({ cpu_hour_minor: null as never })
  assert.deepEqual(await refusal({ overage_enabled: true, spend_cap_minor: 1000 }), {
    reason: 'overage_unavailable',
    field: 'overage_enabled',
  })
  assert.equal((await put({ overage_enabled: false })).status, 200)
  const { body } = await w.get(path('spend-policy'))
  assert.deepEqual([body.overage_state, body.spend_cap_max_minor, body.spend_cap_minor], ['unavailable', null, 300])
})

test("no key decides an organization's payments, and members of another organization see nothing of it", async () => {
  const key = await w.call('PUT', path('spend-policy'), { body: { overage_enabled: false } })
  assert.deepEqual([key.status, key.body.error.code], [403, 'forbidden'])
  const { person } = seeder(w.database, w.clock, w.ids)
  const as = (await person(w.b.organization_id, 'owner')).token
  const names = ['spend', 'spend-policy', 'entitlements', 'subscription', 'usage/estimate']
  assert.deepEqual(
    await Promise.all(names.map(async (name) => (await w.get(path(name), { as })).status)),
    names.map(() => 404),
  )
})

test('an estimate is the average of the period so far, plus one workspace for the requested hours', async () => {
  await use(0)
  await put({ overage_enabled: true, spend_cap_minor: 5000 })
  const { body, status } = await w.get(`${path('usage/estimate')}?cpu_millis=2000&memory_mib=1024&hours=0`)
  assert.deepEqual([status, body.overage_minor, body.total_minor, body.currency], [200, 0, 5000, 'EUR'])
  await use(20)
  const beyond = await w.get(path('usage/estimate'))
  const [cpu] = beyond.body.allowances
  assert.ok(cpu.estimated_meter_units >= 20 * 3600 && cpu.used_meter_units === 20 * 3600, JSON.stringify(cpu))
  const charged = Math.min(5000, Math.floor((cpu.estimated_meter_units - 36_000) / 3600) * 10)
  assert.deepEqual([beyond.body.overage_minor, beyond.body.total_minor], [charged, 5000 + charged])
  const refused = await w.get(`${path('usage/estimate')}?hours=745`)
  assert.deepEqual([refused.status, refused.body.error.details.issues[0].path], [422, 'hours'])
})

test('the catalog holds the listed plans, and entitlements tell a value from no limit and from a missing one', async () => {
  assert.deepEqual((await w.get('/v1/plans')).body, { data: [], next_cursor: null })
  await priced({ is_listed: true })
  const { body } = await w.get('/v1/plans')
  assert.deepEqual([body.data.length, body.data[0].slug, body.data[0].price_minor], [1, 'unlimited', 5000])
  const { entitlements } = (await w.get(path('entitlements'))).body
  assert.deepEqual(
    entitlements.map(({ name }: { name: string }) => name),
    ENTITLEMENTS,
  )
  assert.deepEqual(
    entitlements.find(({ name }: { name: string }) => name === 'cpu_hours'),
    { name: 'cpu_hours', kind: 'value', value: 10 },
  )
  await sql`update plans set missing_limits = '{memory_mib}'`.execute(w.database.superuser)
  const missing = (await w.get(path('entitlements'))).body.entitlements
  assert.deepEqual(
    ['memory_mib', 'disk_gib'].map((name) => missing.find((one: { name: string }) => one.name === name).kind),
    ['missing', 'unlimited'],
  )
  assert.equal((await w.get(path('subscription'))).body.refuses_starts, 'limits_missing')
  await sql`update plans set missing_limits = '{}'`.execute(w.database.superuser)
})

test('a subscription shows its state, and overage is paused while a payment is past due', async () => {
  await use(0)
  await put({ overage_enabled: true, spend_cap_minor: 1000 })
  const standing = async (reason: string | null) => {
    await sql`update organizations set refuses_starts = ${reason} where id = ${w.a.organization_id}`.execute(w.database.superuser)
    const [{ body }, policy] = await Promise.all([w.get(path('subscription')), w.get(path('spend-policy'))])
    return [body.state, body.refuses_starts, policy.body.overage_state]
  }
  assert.deepEqual(
    [
      await standing('payment_past_due'),
      await standing('unpaid'),
      await standing('operator_hold'),
      await standing('no_plan'),
      await standing(null),
    ],
    [
      ['past_due', 'payment_past_due', 'paused'],
      ['unpaid', 'unpaid', 'on'],
      ['on_hold', 'operator_hold', 'on'],
      ['none', 'no_plan', 'on'],
      ['active', null, 'on'],
    ],
  )
})
