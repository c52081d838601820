import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { closePeriods, finalThrough } from '../../service/core/money/billing/close.ts'
import { judgePayment, judgePayments } from '../../service/core/money/billing/standing.ts'
import { endInvoice, recordTermsBefore } from '../../service/core/money/billing/store.ts'
import { serviceOrigin } from '../../service/core/changes/audit.ts'
import { mutate, type ChangeTx } from '../../service/core/changes/mutate.ts'
import { periodOf } from '../../service/core/money/usage/period.ts'
import { seeder, world, type World } from './support.ts'

const DAY_MS = 24 * 3600_000

let w: World
let owner: string
let period: { starts_at: Date; ends_at: Date }
let now: Date
before(async () => {
  w = await world()
  owner = (await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'owner', { stepped_up: true })).token
  const starts_at = periodOf(new Date(periodOf(w.clock.now()).starts_at.getTime() - 1)).starts_at
  period = periodOf(starts_at)
  now = new Date(period.ends_at.getTime() + 3 * 3600_000)
  const { superuser: db } = w.database
  const created_at = new Date(starts_at.getTime() - DAY_MS)
  await db.updateTable('organizations').set({ created_at }).execute()
  const prices = { currency: 'EUR', price_minor: 5000, cpu_hours: 10, cpu_hour_minor: 100 }
  await db.updateTable('plans').set(prices).execute()
})
after(() => w[Symbol.asyncDispose]())

const path = (name: string, { organization_id } = w.a) => `/v1/organizations/${organization_id}/${name}`
const by = (at: Date) => serviceOrigin('api', { ids: w.ids, now: at })
const change = <R>(work: (tx: ChangeTx) => Promise<R>) => mutate(w.database.superuser, by(now), 'test.change', work, () => null)
const invoices = async (as = owner) => (await w.get(path('invoices'), { as })).body.data

async function use(cpu_hours: number, hour: Date): Promise<void> {
  const { organization_id, project_id } = w.a
  await w.database.superuser
    .insertInto('usage_hours')
    .values({ organization_id, project_id, hour, cpu_seconds: cpu_hours * 3600 })
    .execute()
}

test('a period is closed once, when its last hour is final, by any number of processes, with an invoice for each debtor', async () => {
  const { superuser: db, api } = w.database
  const { organization_id } = w.a
  await db
    .insertInto('spend_policies')
    .values({
      organization_id,
      version: 1,
      overage_enabled: true,
      spend_cap_minor: 1500,
      enabled_in: period.starts_at,
      changed_at: period.starts_at,
    })
    .execute()
  await use(14, new Date(period.ends_at.getTime() - 3600_000))
  await use(500, period.ends_at) // of the next period
  const half = new Date((period.starts_at.getTime() + period.ends_at.getTime()) / 2)
  const other = await seeder(w.database, w.clock, w.ids).plan('other')
  await db.updateTable('plans').set({ currency: 'USD', price_minor: 1000 }).where('id', '=', other).execute()
  await db.updateTable('organizations').set({ plan_id: other }).where('id', '=', organization_id).execute()
  const { plan_id } = await db.selectFrom('organizations').select('plan_id').where('id', '=', w.b.organization_id).executeTakeFirstOrThrow()
  await change(async (tx) => {
    await recordTermsBefore(tx, { organization_id }, half)
    await tx.updateTable('organizations').set({ plan_id }).where('id', '=', organization_id).execute()
  })
  assert.deepEqual(finalThrough(new Date(now.getTime() - 1)), period.starts_at)
  assert.deepEqual(finalThrough(now), period.ends_at)
  const done = await Promise.all([1, 2, 3].map(() => closePeriods(api, by(now))))
  assert.deepEqual(
    [done.reduce((sum, { closed }) => sum + closed, 0), done.reduce((sum, { invoices }) => sum + invoices, 0)],
    [2, 3], // two currencies of a, one of b
  )
  assert.deepEqual(await closePeriods(api, by(now)), { closed: 0, invoices: 0, failed: [] })
  const all = await invoices()
  const month = period.starts_at.toISOString().slice(0, 7)
  assert.deepEqual(
    all
      .map((one: { number: string; total_minor: number; lines: { kind: string; amount_minor: number }[] }) => [
        one.number,
        one.total_minor,
        one.lines.map(({ kind, amount_minor }) => `${kind} ${amount_minor}`),
      ])
      .sort(),
    [
      [`a-${month}-EUR`, 2900, ['plan 2500', 'overage 400']],
      [`a-${month}-USD`, 500, ['plan 500']],
    ],
  )
  const one = await w.get(path(`invoices/${all[0].id}`), { as: owner })
  assert.deepEqual([one.status, one.body], [200, all[0]])
  assert.equal((await w.get(path(`invoices/${w.ids.next()}`), { as: owner })).status, 404)
  assert.equal((await w.get(path('invoices'))).status, 403)
  const of_b = await w.database.superuser
    .selectFrom('invoices')
    .select('id')
    .where('organization_id', '=', w.b.organization_id)
    .executeTakeFirst()
  assert.equal((await w.get(path(`invoices/${of_b?.id}`), { as: owner })).status, 404)
})

test('an unpaid invoice refuses starts, first after a grace, then at once; paying the last one lifts the refusal', async () => {
  const { api } = w.database
  const due = new Date((await invoices())[0].due_at)
  const start = async () => {
    const { status, body } = await w.open('starts')
    return status === 202 ? null : [status, body.error.code, body.error.details.reason, body.error.details.grace_until]
  }
  const subscription = async () => (await w.get(path('subscription'))).body
  const grace_until = new Date(due.getTime() + 14 * DAY_MS)
  assert.deepEqual(await judgePayments(api, by(new Date(due.getTime() - 1))), [])
  assert.deepEqual((await judgePayments(api, by(due))).sort(), [w.a.organization_id, w.b.organization_id].sort())
  await w.database.superuser.transaction().execute(async (tx) => {
    await tx.selectFrom('organizations').select('id').forUpdate().execute()
    assert.deepEqual(await judgePayments(api, by(due)), [], 'nothing is asked of organizations that were judged before')
  })
  assert.deepEqual(await start(), [402, 'entitlement_required', 'payment_past_due', grace_until.toISOString()])
  const { state, refuses_starts, grace_until: told } = await subscription()
  assert.deepEqual([state, refuses_starts, told], ['past_due', 'payment_past_due', grace_until.toISOString()])
  assert.equal((await w.get(path('spend-policy'))).body.overage_state, 'paused')
  await judgePayments(api, by(grace_until))
  assert.deepEqual(await start(), [402, 'entitlement_required', 'unpaid', undefined])
  const [first, second] = await invoices()
  const pay = (id: string) =>
    change(async (tx) => {
      await endInvoice(tx, id, { state: 'paid', paid_at: grace_until })
      await judgePayment(tx, w.a.organization_id, grace_until)
    })
  await pay(first.id)
  assert.equal((await subscription()).state, 'unpaid')
  await pay(second.id)
  assert.deepEqual([(await subscription()).state, await start()], ['active', null])
  assert.deepEqual(
    (await invoices()).map(({ state, paid_at }: { state: string; paid_at: string }) => [state, paid_at]),
    [1, 2].map(() => ['paid', grace_until.toISOString()]),
  )
})

test('a period is charged by the overage decision of its time, and later decisions do not matter', async () => {
  const organization_id = w.b.organization_id
  const { superuser: db } = w.database
  const as = (await seeder(w.database, w.clock, w.ids).person(organization_id, 'owner')).token
  const put = async (body: object) => {
    const answer = await w.call('PUT', path('spend-policy', w.b), { as, body })
    assert.equal(answer.status, 200, JSON.stringify(answer.body))
  }
  const kept = async () => {
    const rows = await db
      .selectFrom('overage_periods')
      .selectAll()
      .where('organization_id', '=', organization_id)
      .orderBy('period_starts_at')
      .execute()
    return rows.map(({ period_starts_at, spend_cap_minor }) => [period_starts_at.toISOString(), spend_cap_minor])
  }
  await put({ overage_enabled: false })
  assert.deepEqual(await kept(), [])
  await put({ overage_enabled: true, spend_cap_minor: 700 })
  const this_period = periodOf(w.clock.now()).starts_at
  assert.deepEqual(await kept(), [[this_period.toISOString(), 700]])
  const earlier = periodOf(new Date(period.starts_at.getTime() - 1)).starts_at
  await db.deleteFrom('overage_periods').execute()
  await db.updateTable('spend_policies').set({ changed_at: earlier }).where('organization_id', '=', organization_id).execute()
  await put({ overage_enabled: false })
  assert.deepEqual(
    await kept(),
    [earlier, period.starts_at, this_period].map((at) => [at.toISOString(), 700]),
  )
})

test('where an operator records payments, no plan can be bought and no payment account exists', async () => {
  const buy = (plan: string, as = owner) => w.call('POST', path('checkout'), { as, body: { plan } })
  const { status, body } = await buy('unlimited')
  assert.deepEqual(
    [status, body.error.code, body.error.details],
    [422, 'validation_failed', { reason: 'plan_not_purchasable', field: 'plan' }],
  )
  await w.database.superuser.updateTable('plans').set({ is_listed: true }).execute()
  const listed = await buy('unlimited')
  assert.match(listed.body.error.message, /operator/)
  const portal = await w.call('POST', path('billing-portal'), { as: owner })
  assert.deepEqual([portal.status, portal.body.error.code], [404, 'not_found'])
  const without = (await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'billing')).token
  assert.equal((await buy('unlimited', without)).body.error.code, 'step_up_required')
  assert.equal((await buy('unlimited', w.a.key)).status, 403)
})

test('a deleted organization is invoiced for its last month and no later one; one that cannot be closed stops no other', async () => {
  const { superuser: db, api } = w.database
  const plan_id = (await db.selectFrom('organizations').select('plan_id').where('id', '=', w.b.organization_id).executeTakeFirstOrThrow())
    .plan_id
  const seeds = seeder(w.database, w.clock, w.ids)
  const [stuck, gone] = [await seeds.tenant('stuck', plan_id), await seeds.tenant('gone', plan_id)]
  const ids = [stuck.organization_id, gone.organization_id]
  const half = new Date((period.starts_at.getTime() + period.ends_at.getTime()) / 2)
  await db
    .updateTable('organizations')
    .set({ created_at: period.starts_at, billed_through: period.starts_at })
    .where('id', 'in', ids)
    .execute()
  await db.updateTable('organizations').set({ deleting_at: half, deleted_at: half }).where('id', '=', gone.organization_id).execute()
  // An invoice of that month exists, so closing the month fails.
  const [there] = await db.selectFrom('invoices').selectAll().where('organization_id', '=', w.b.organization_id).execute()
  assert.ok(there)
  const other = { id: w.ids.next(), organization_id: stuck.organization_id, number: 'stuck-once', lines: '[]' }
  await db
    .insertInto('invoices')
    .values({ ...there, ...other })
    .execute()
  const closed = await closePeriods(api, by(now))
  assert.deepEqual(
    [closed.closed, closed.invoices, closed.failed.map(({ organization_id }) => organization_id)],
    [1, 1, [stuck.organization_id]],
  )
  const next = periodOf(period.ends_at)
  await closePeriods(api, by(new Date(next.ends_at.getTime() + 4 * 3600_000)))
  const rows = await db.selectFrom('invoices').select('total_minor').where('organization_id', '=', gone.organization_id).execute()
  assert.deepEqual(rows, [{ total_minor: 2500 }])
})
