import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { openShop, type Shop } from './payment-support.ts'
import { seeder, type Answer } from './support.ts'

const said = ({ status, body }: Answer) => [status, body?.error?.code, body?.error?.details?.reason]

async function bought(): Promise<Shop & { subscription_id: string }> {
  const shop = await openShop()
  await shop.buy()
  await shop.tell(shop.double.pay(shop.page()))
  await shop.collect()
  return { ...shop, subscription_id: shop.double.of('subscription').at(-1)?.id ?? '' }
}

test("a bought and paid plan becomes the organization's plan, and its end restores the previous plan", async () => {
  await using shop = await openShop()
  const { double } = shop
  const begun = await shop.buy()
  assert.equal(begun.status, 201)
  assert.equal(begun.body.url, `https://checkout.double/${shop.page()}`)
  assert.equal(Date.parse(begun.body.expires_at) - shop.w.clock.now().getTime() > 59 * 60_000, true)
  const form = double.things.get(shop.page())?.['form'] as Record<string, string>
  assert.deepEqual(
    [form['mode'], form['line_items[0][price_data][unit_amount]'], form['line_items[0][price_data][currency]'], form['success_url']],
    ['subscription', '0', 'eur', 'https://example.com/billing'],
  )
  assert.match(form['line_items[0][price_data][product_data][description]'] ?? '', /^€50\.00 a month/)
  await shop.collect()
  assert.deepEqual([(await shop.subscription()).plan.slug, (await shop.subscription()).payment], ['unlimited', 'manual'])
  const paid = double.pay(shop.page())
  assert.deepEqual((await shop.tell(paid)).body, { received: true })
  await shop.collect()
  assert.deepEqual([(await shop.subscription()).plan.slug, (await shop.subscription()).payment], ['team', 'stripe'])
  const { details } = await shop.w.database.superuser
    .selectFrom('audit_events').select('details').where('action', '=', 'billing.buy').executeTakeFirstOrThrow() // prettier-ignore
  const [subscription] = double.of('subscription')
  assert.equal((details as Record<string, string>)['subscription_id'], subscription?.id)
  const portal = await shop.portal()
  assert.deepEqual([portal.status, portal.body.url], [201, `https://portal.double/${double.of('customer')[0]?.id}`])
  await shop.tell(double.cancel(subscription?.id ?? ''))
  await shop.collect()
  assert.deepEqual([(await shop.subscription()).plan.slug, (await shop.subscription()).payment], ['unlimited', 'manual'])
  const { organization_id } = shop.w.a
  const changes = await shop.w.database.superuser
    .selectFrom('subscription_changes').select('plan').where('organization_id', '=', organization_id).orderBy('changed_at').execute() // prettier-ignore
  assert.deepEqual(changes.map(({ plan }) => plan), ['unlimited', 'team']) // prettier-ignore
})

test('an event that arrives twice, or after a later one, has one effect', async () => {
  await using shop = await openShop()
  const { double } = shop
  await shop.buy()
  const paid = double.pay(shop.page())
  const subscription_id = double.of('subscription')[0]?.id ?? ''
  const ended = double.cancel(subscription_id)
  // The subscription's end arrives before its beginning.
  for (const event of [ended, paid, paid, ended]) assert.equal((await shop.tell(event)).status, 200)
  await shop.collect()
  await shop.collect()
  assert.deepEqual([(await shop.subscription()).plan.slug, (await shop.subscription()).payment], ['unlimited', 'manual'])
  const events = await shop.w.database.superuser.selectFrom('payment_events').select(['applied_at', 'tries']).execute()
  assert.deepEqual(events.map(({ applied_at, tries }) => [applied_at !== null, tries]), [[true, 1], [true, 1]]) // prettier-ignore
  const actions = await shop.w.database.superuser
    .selectFrom('audit_events').select('action').where('action', 'in', ['billing.buy', 'billing.end']).orderBy('id').execute() // prettier-ignore
  assert.deepEqual(actions.map(({ action }) => action), ['billing.buy', 'billing.end']) // prettier-ignore
})

test('only events that the payment service has signed within five minutes are accepted, byte for byte', async () => {
  await using shop = await openShop()
  const { double, w } = shop
  await shop.buy()
  const body = double.pay(shop.page())
  const minutes = (count: number) => new Date(w.clock.now().getTime() - count * 60_000)
  const wrong: Record<string, string>[] = [
    { 'stripe-signature': double.sign(body, w.clock.now(), 'whsec_other') },
    { 'stripe-signature': double.sign(`${body} `, w.clock.now()) },
    { 'stripe-signature': double.sign(body, minutes(6)) },
    { 'stripe-signature': 'nonsense' },
    { 'stripe-signature': '' },
  ]
  for (const headers of wrong) assert.deepEqual(said(await shop.tell(body, headers)), [400, 'bad_request', undefined])
  assert.deepEqual(said(await w.call('POST', '/v1/payment-events/stripe', { as: null, body })), [400, 'bad_request', undefined])
  for (const nonsense of ['[]', 'null', '{}', 'no json']) assert.deepEqual(said(await shop.tell(nonsense)), [400, 'bad_request', undefined])
  assert.equal((await shop.tell(body, { 'stripe-signature': double.sign(body, minutes(4)) })).status, 200)
  assert.equal((await shop.tell(double.event('product.created', { id: 'prod_1' }))).status, 200)
  assert.equal((await shop.tell(double.event('invoice.upcoming', {}))).status, 200)
  const kept = await w.database.superuser.selectFrom('payment_events').select('kind').execute()
  assert.deepEqual(kept, [{ kind: 'checkout' }])
})

test('a body that is larger than any event is refused before it is read', async () => {
  await using shop = await openShop()
  const body = 'x'.repeat(LIMITS.payment.event_bytes_max + 1)
  assert.deepEqual(said(await shop.tell(body)), [413, 'payload_too_large', undefined])
})

test('without a payment service an event is refused without a query to the database', async () => {
  await using shop = await openShop({ stripe: null })
  assert.deepEqual(said(await shop.tell(shop.double.event('invoice.paid', { id: 'in_1' }))), [404, 'not_found', undefined])
})

test('an event that cannot be stored is refused, so that the payment service sends it again', async () => {
  await using shop = await openShop()
  await shop.w.database.superuser.schema.alterTable('payment_events').renameTo('payment_events_lost').execute()
  assert.deepEqual(said(await shop.tell(shop.double.event('invoice.paid', { id: 'in_1' }))), [500, 'internal_error', undefined])
})

test('a second plan cannot be bought; a second paid subscription is cancelled remotely', async () => {
  await using shop = await openShop()
  const { double } = shop
  await shop.buy('team')
  const first = shop.page()
  await shop.buy('studio')
  const second = shop.page()
  // The person paid the first page just as it was closed.
  assert.equal(double.things.get(first)?.['status'], 'expired')
  await shop.tell(double.pay(second))
  await shop.tell(double.pay(first))
  await shop.collect()
  assert.equal((await shop.subscription()).plan.slug, 'studio')
  assert.deepEqual(double.of('subscription').map(({ status }) => status), ['active', 'canceled']) // prettier-ignore
  assert.deepEqual(said(await shop.buy('team')), [409, 'conflict', 'subscription_exists'])
})

test('a checkout that begins while its person pays the previous one is refused with subscription_exists', async () => {
  await using shop = await openShop()
  await shop.buy()
  const paid = shop.double.pay(shop.page())
  assert.deepEqual(said(await shop.buy('studio')), [409, 'conflict', 'subscription_exists'])
  await shop.tell(paid)
  await shop.collect()
  assert.equal((await shop.subscription()).plan.slug, 'team')
})

test('of concurrent checkouts one has an open page, and the others are superseded', async () => {
  await using shop = await openShop()
  const answers = await Promise.all([1, 2, 3, 4].map(() => shop.buy()))
  const reasons = answers.map((answer) => (answer.status === 201 ? '201' : answer.body.error.details.reason)).sort()
  // Checkouts in sequence all get a page, but only the last page stays open.
  assert.deepEqual([reasons.every((reason) => reason === '201' || reason === 'checkout_superseded'), reasons[0]], [true, '201'])
  const open = shop.double.of('checkout.session').filter(({ status }) => status === 'open')
  assert.equal(open.length, 1)
})

test('a checkout that another one replaces while its page is created is superseded, and its page is closed', async () => {
  await using shop = await openShop()
  const { superuser: db } = shop.w.database
  shop.double.before_answer = async (at) => {
    if (at === 'POST checkout/sessions') await db.updateTable('checkouts').set({ state: 'superseded' }).execute()
  }
  assert.deepEqual(said(await shop.buy()), [409, 'conflict', 'checkout_superseded'])
  assert.deepEqual(shop.double.of('checkout.session').map(({ status }) => status), ['expired']) // prettier-ignore
})

test('a plan outside the catalog or without a price cannot be bought', async () => {
  await using shop = await openShop()
  await shop.w.database.superuser.updateTable('plans').set({ price_minor: null }).where('slug', '=', 'studio').execute()
  for (const plan of ['studio', 'unlimited', 'nothing'])
    assert.deepEqual(said(await shop.buy(plan)), [422, 'validation_failed', 'plan_not_purchasable'])
  assert.deepEqual(said(await shop.portal()), [404, 'not_found', undefined])
  assert.deepEqual(shop.double.calls, [])
})

test('an organization that pays, or is about to, cannot be deleted', async () => {
  await using shop = await openShop()
  const { w, owner: as } = shop
  const end = () => w.call('DELETE', `/v1/organizations/${w.a.organization_id}`, { as, body: { confirm_slug: 'a' } })
  await shop.buy()
  assert.deepEqual(said(await end()), [409, 'conflict', 'checkout_pending'])
  await shop.tell(shop.double.pay(shop.page()))
  await shop.collect()
  assert.deepEqual(said(await end()), [409, 'conflict', 'subscription_active'])
  await shop.tell(shop.double.cancel(shop.double.of('subscription')[0]?.id ?? ''))
  await shop.collect()
  assert.equal((await end()).status, 202)
})

test('an unpaid checkout page expires, with or without its event', async () => {
  await using shop = await openShop()
  const states = async () =>
    (await shop.w.database.superuser.selectFrom('checkouts').select('state').orderBy('id').execute()).map(({ state }) => state)
  await shop.buy()
  await shop.tell(shop.double.late(shop.page()))
  await shop.collect()
  assert.deepEqual(await states(), ['expired'])
  await shop.buy()
  shop.double.late(shop.page())
  shop.w.clock.ahead_ms += (LIMITS.payment.checkout_minutes + 2) * 60_000
  await shop.collect()
  assert.deepEqual(await states(), ['expired', 'expired'])
})

test('a caller is told that the payment service is unavailable, and nothing blocks the next checkout', async () => {
  await using shop = await bought()
  await shop.tell(shop.double.cancel(shop.subscription_id))
  await shop.collect()
  for (const mood of ['refuses', 'hangs_up'] as const) {
    shop.double.mood = mood
    assert.deepEqual(said(await shop.buy()), [503, 'dependency_unavailable', undefined])
    assert.deepEqual(said(await shop.portal()), [503, 'dependency_unavailable', undefined])
  }
  shop.double.mood = 'serves'
  assert.equal((await shop.buy()).status, 201)
})

test('the next poll tells the payment service of a plan that an operator has changed', async () => {
  await using shop = await bought()
  const { superuser: db } = shop.w.database
  const { id } = await db.selectFrom('plans').select('id').where('slug', '=', 'studio').executeTakeFirstOrThrow()
  await db.updateTable('organizations').set({ plan_id: id }).where('id', '=', shop.w.a.organization_id).execute()
  shop.w.clock.ahead_ms += (LIMITS.payment.look_again_seconds + 60) * 1000
  await shop.collect()
  assert.deepEqual(shop.double.things.get(shop.subscription_id)?.['metadata'], { plan: 'studio' })
  await shop.tell(shop.double.cancel(shop.subscription_id))
  await shop.collect()
  assert.equal((await shop.subscription()).plan.slug, 'studio')
})

test("a caller who may not decide the organization's plan buys nothing and opens no portal", async () => {
  await using shop = await openShop()
  const seeds = seeder(shop.w.database, shop.w.clock, shop.w.ids)
  const member = (await seeds.person(shop.w.a.organization_id, 'member', { stepped_up: true })).token
  const stranger = (await seeds.person(shop.w.b.organization_id, 'owner', { stepped_up: true })).token
  assert.deepEqual((await shop.buy('team', { as: member })).status, 403)
  assert.deepEqual((await shop.buy('team', { as: stranger })).status, 404)
  assert.deepEqual(shop.double.calls, [])
})
