import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { mailAlerts } from '../../service/api/money/spend/alert-mail.ts'
import { periodOf } from '../../service/core/money/usage/period.ts'
import { openMailbox } from '../support/mailbox.ts'
import { seeder, world, type World } from './support.ts'

const from = 'Berth <berth@mail.test>'

let w: World
let owner: { token: string; email: string }
before(async () => {
  w = await world()
  owner = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'owner')
})
after(() => w[Symbol.asyncDispose]())

const path = (name: string) => `/v1/organizations/${w.a.organization_id}/${name}`

test('grants are listed with their use, remainder and end, and add to the allowance', async () => {
  const seeds = seeder(w.database, w.clock, w.ids)
  await w.database.superuser.updateTable('plans').set({ cpu_hours: 10 }).execute()
  const now = w.clock.now()
  const hour = 3600_000
  const { organization_id } = w.a
  const drawn = async (id: string, meter_units: number, period: Date) =>
    w.database.superuser
      .insertInto('usage_grant_draws')
      .values({ grant_id: id, period_starts_at: period, meter_units, drawn_at: now })
      .execute()
  const { starts_at } = periodOf(now)
  const earlier = periodOf(new Date(starts_at.getTime() - 1)).starts_at
  const used_up = await seeds.grant(organization_id, { granted_meter_units: 3600 })
  await drawn(used_up, 3600, earlier)
  const expired = await seeds.grant(organization_id, {
    created_at: new Date(now.getTime() - 2 * hour),
    expires_at: new Date(now.getTime() - hour),
  })
  await drawn(expired, 100, starts_at)
  await seeds.grant(organization_id, { revoked_at: now })
  const active = await seeds.grant(organization_id, { granted_meter_units: 7200, note: 'welcome' })
  await drawn(active, 200, starts_at)
  const { body, status } = await w.get(path('usage/grants'))
  assert.equal(status, 200, JSON.stringify(body))
  assert.deepEqual(body.data[0], {
    id: active,
    organization_id,
    allowance: 'cpu_hours',
    state: 'active',
    granted: 2,
    granted_meter_units: 7200,
    drawn_meter_units: 200,
    remaining_meter_units: 7000,
    note: 'welcome',
    created_at: body.data[0].created_at,
    expires_at: null,
  })
  assert.deepEqual(
    body.data.map((one: { state: string; drawn_meter_units: number; remaining_meter_units: number }) => [
      one.state,
      one.drawn_meter_units,
      one.remaining_meter_units,
    ]),
    [
      ['active', 200, 7000],
      ['revoked', 0, 0],
      ['expired', 100, 0],
      ['used_up', 3600, 0],
    ],
  )
  const [cpu] = (await w.get(path('usage/summary'))).body.allowances
  assert.deepEqual([cpu.granted_meter_units, cpu.included_meter_units, cpu.included], [7300, 43_300, 43_300 / 3600])
  const estimated = (await w.get(path('usage/estimate'))).body.allowances[0]
  assert.deepEqual([estimated.granted_meter_units, estimated.included_meter_units], [7300, 43_300])
})

test('people who pay set thresholds, which are sorted and unique; keys and outsiders see none', async () => {
  const get = await w.get(path('spend-alerts'), { as: owner.token })
  assert.deepEqual([get.status, get.body.thresholds_percent, get.body.reached], [200, [50, 80, 100], []])
  const put = (thresholds_percent: unknown, as = owner.token) => w.call('PUT', path('spend-alerts'), { as, body: { thresholds_percent } })
  assert.deepEqual((await put([90, 10])).body.thresholds_percent, [10, 90])
  assert.deepEqual((await w.get(path('spend-policy'))).body.alert_thresholds_percent, [10, 90])
  for (const bad of [[0], [101], [50, 50], [1.5], Array.from({ length: 11 }, (_, at) => at + 1), 'all'])
    assert.equal((await put(bad)).status, 422, JSON.stringify(bad))
  assert.equal((await put([1], w.a.key)).status, 403)
  const stranger = (await seeder(w.database, w.clock, w.ids).person(w.b.organization_id, 'owner')).token
  assert.equal((await put([1], stranger)).status, 404)
  assert.equal((await w.get(path('spend-alerts'), { as: stranger })).status, 404)
  assert.deepEqual((await put([])).body.thresholds_percent, [])
})

test('payers are mailed once for the highest of the thresholds that were reached together, by any number of processes', async () => {
  await using box = await openMailbox()
  await using w = await world({ mail: { smtp_url: box.url, from, directory: '' } })
  const seeds = seeder(w.database, w.clock, w.ids)
  const { organization_id } = w.a
  const told = [await seeds.person(organization_id, 'owner'), await seeds.person(organization_id, 'billing')]
  await seeds.person(organization_id, 'member')
  await seeds.person(organization_id, 'admin', { email_verified: false })
  const now = w.clock.now()
  const reached = (subject: 'cpu_hours' | 'spend_cap', threshold_percent: number) => ({
    id: w.ids.next(),
    organization_id,
    period_starts_at: periodOf(now).starts_at,
    subject,
    threshold_percent,
    reached_at: now,
    mailed_at: null,
  })
  const rows = [reached('cpu_hours', 50), reached('cpu_hours', 80), reached('spend_cap', 50)]
  await w.database.cell.insertInto('spend_alerts').values(rows).execute()
  const written = await Promise.all([1, 2, 3].map(() => mailAlerts(w.database.api, w.ids, now)))
  assert.equal(
    written.reduce((sum, count) => sum + count),
    4,
  )
  assert.equal(await mailAlerts(w.database.api, w.ids, now), 0)
  for (const { email } of told) {
    const mail = await box.mailTo(email, /What your organization used/)
    assert.match(mail.text ?? '', /percent of (its spend cap|the CPU-hours)/)
  }
  const { body } = await w.get(`/v1/organizations/${organization_id}/spend-alerts`, { as: told[0]?.token ?? '' })
  assert.deepEqual(
    body.reached.map((one: { subject: string; threshold_percent: number; mailed_at: string }) => [
      one.subject,
      one.threshold_percent,
      one.mailed_at,
    ]),
    [
      ['cpu_hours', 80, now.toISOString()],
      ['cpu_hours', 50, now.toISOString()],
      ['spend_cap', 50, now.toISOString()],
    ],
  )
  const mails = await w.database.superuser.selectFrom('mails').select(['email', 'spend_alert_id']).execute()
  assert.deepEqual(new Set(mails.map(({ spend_alert_id }) => spend_alert_id)), new Set([rows[1]?.id, rows[2]?.id]))
  assert.deepEqual(new Set(mails.map(({ email }) => email)), new Set(told.map(({ email }) => email)))
})
