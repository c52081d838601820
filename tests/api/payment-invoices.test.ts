import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { judgePayment, judgePayments } from '../../service/core/money/billing/standing.ts'
import { endInvoice } from '../../service/core/money/billing/store.ts'
import { serviceOrigin } from '../../service/core/changes/audit.ts'
import { mutate } from '../../service/core/changes/mutate.ts'
import { armFailpoint } from '../../service/lib/failpoints.ts'
import { openShop, type Shop } from './payment-support.ts'

const DAY_MS = 24 * 3600_000
const PERIOD = { starts_at: '2031-03-01T00:00:00.000Z', ends_at: '2031-04-01T00:00:00.000Z' }
const LINES = [
  { kind: 'plan', plan: 'team', ...PERIOD, allowance: null, units: null, unit_minor: 5000, amount_minor: 5000 },
  { kind: 'overage', plan: 'team', ...PERIOD, allowance: 'cpu_hours', units: 30, unit_minor: 10, amount_minor: 300 },
  { kind: 'cap', plan: 'team', ...PERIOD, allowance: null, units: null, unit_minor: null, amount_minor: -100 },
]

async function owing(): Promise<Shop & { id: string; due_at: Date }> {
  const shop = await openShop()
  await shop.buy()
  await shop.tell(shop.double.pay(shop.page()))
  await shop.collect()
  const { id, due_at } = await owe(shop)
  return { ...shop, id, due_at }
}

async function owe({ w }: Shop) {
  const issued_at = w.clock.now()
  const row = {
    id: w.ids.next(),
    organization_id: w.a.organization_id,
    number: 'a-2031-03-EUR',
    state: 'open' as const,
    period_starts_at: new Date(PERIOD.starts_at),
    period_ends_at: new Date(PERIOD.ends_at),
    currency: 'EUR',
    lines: JSON.stringify(LINES),
    total_minor: 5200,
    issued_at,
    due_at: new Date(issued_at.getTime() + LIMITS.billing.due_days * DAY_MS),
    paid_at: null,
    voided_at: null,
  }
  await w.database.superuser.insertInto('invoices').values(row).execute()
  return row
}

const mine = async ({ w }: Shop, id: string) =>
  w.database.superuser
    .selectFrom('invoices')
    .select('state')
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
    .then(({ state }) => state)
const there = ({ double }: Shop) => double.of('invoice').map(({ status, total }) => [status, total])
const remoteOf = ({ double }: Shop) => double.of('invoice').at(-1)?.id ?? ''
const by = (shop: Shop, now = shop.w.clock.now()) => serviceOrigin('api', { ids: shop.w.ids, now })
const failed = (shop: Shop) =>
  shop.w.database.superuser.selectFrom('payment_invoices').select(['tries', 'last_error', 'pushed_at']).execute()

const operate = (shop: Shop, id: string, state: 'paid' | 'void') =>
  mutate(
    shop.w.database.superuser,
    by(shop),
    'test.end',
    async (tx) => {
      const now = shop.w.clock.now()
      await endInvoice(tx, id, state === 'paid' ? { state, paid_at: now } : { state, voided_at: now })
      await judgePayment(tx, shop.w.a.organization_id, now)
    },
    () => null,
  )

test('an invoice is pushed with its lines, collected once it is complete, and paid here when it is paid remotely', async () => {
  await using shop = await owing()
  await shop.collect()
  assert.deepEqual(there(shop), [['open', 5200]])
  assert.deepEqual(
    shop.double.of('invoiceitem').map(({ amount, description }) => [amount, description]),
    [
      [5000, 'Plan team'],
      [300, '30 CPU-hours beyond plan team'],
      [-100, 'Beyond the cap, and not charged'],
    ],
  )
  assert.equal(shop.double.of('invoice')[0]?.['description'], 'a-2031-03-EUR')
  await shop.collect()
  assert.equal(shop.double.calls.filter((call) => call === 'POST /v1/invoices').length, 1)
  assert.equal(await mine(shop, shop.id), 'open')
  const paid = shop.double.invoice(remoteOf(shop), 'paid', 'invoice.paid')
  for (const event of [paid, paid]) await shop.tell(event)
  await shop.collect()
  assert.equal(await mine(shop, shop.id), 'paid')
})

test('an invoice whose payment fails is past due with a grace, then unpaid, and its payment lets starts go on', async () => {
  await using shop = await owing()
  const { w, double, due_at } = shop
  const start = async () => {
    const { status, body } = await w.open('starts')
    return status === 202 ? null : [status, body.error.details.reason, body.error.details.grace_until]
  }
  await shop.collect()
  await shop.tell(double.invoice(remoteOf(shop), 'open', 'invoice.payment_failed'))
  await shop.collect()
  assert.deepEqual([await mine(shop, shop.id), (await shop.subscription()).state], ['open', 'active'])
  const grace_until = new Date(due_at.getTime() + LIMITS.billing.grace_days * DAY_MS)
  await judgePayments(w.database.api, by(shop, due_at))
  assert.deepEqual(await start(), [402, 'payment_past_due', grace_until.toISOString()])
  await judgePayments(w.database.api, by(shop, grace_until))
  assert.deepEqual(await start(), [402, 'unpaid', undefined])
  assert.equal((await shop.subscription()).state, 'unpaid')
  const again = double.invoice(remoteOf(shop), 'open', 'invoice.payment_failed')
  await shop.tell(double.invoice(remoteOf(shop), 'paid', 'invoice.paid'))
  await shop.tell(again)
  await shop.collect()
  assert.deepEqual([await mine(shop, shop.id), (await shop.subscription()).state, await start()], ['paid', 'active', null])
})

test('an outage of the payment service delays invoices and events, and loses none', async () => {
  await using shop = await owing()
  for (const mood of ['refuses', 'hangs_up'] as const) {
    shop.double.mood = mood
    shop.w.clock.ahead_ms += LIMITS.payment.retry_seconds_max * 1000
    await shop.collect()
  }
  const [waiting] = await failed(shop)
  assert.deepEqual([waiting?.tries, waiting?.pushed_at], [2, null])
  assert.match(waiting?.last_error ?? '', /^The payment service: /)
  shop.double.mood = 'serves'
  await shop.collect()
  assert.deepEqual(there(shop), [], 'it is not tried at every look')
  shop.w.clock.ahead_ms += LIMITS.payment.retry_seconds_max * 1000
  await shop.collect()
  assert.deepEqual(there(shop), [['open', 5200]])
  const paid = shop.double.invoice(remoteOf(shop), 'paid', 'invoice.paid')
  shop.double.mood = 'refuses'
  assert.equal((await shop.tell(paid)).status, 200)
  await shop.collect()
  assert.equal(await mine(shop, shop.id), 'open')
  shop.double.mood = 'serves'
  shop.w.clock.ahead_ms += LIMITS.payment.retry_seconds_max * 1000
  await shop.collect()
  assert.equal(await mine(shop, shop.id), 'paid')
})

test('after a push that breaks off anywhere, the next try makes one invoice with each line once, even without known keys', async () => {
  await using shop = await owing()
  const { double, w } = shop
  const steps = ['POST invoices', 'POST invoiceitems', 'POST invoiceitems', 'POST invoiceitems', 'finalize'] as const
  for (const [number, step] of steps.entries()) {
    let left = step === 'POST invoiceitems' ? number - 1 : 0
    double.before_answer = async (at) => {
      if (!at.startsWith(step) && !at.endsWith(step)) return
      if (left === 0) double.mood = 'hangs_up'
      left -= 1
    }
    await shop.collect()
    double.mood = 'serves'
    double.forgetKeys()
    w.clock.ahead_ms += LIMITS.payment.retry_seconds_max * 1000
  }
  double.before_answer = async () => undefined
  await shop.collect()
  assert.deepEqual(there(shop), [['open', 5200]])
  assert.equal(double.of('invoiceitem').length, 3)
})

for (const point of ['payment.P1', 'payment.P2'] as const) {
  test(`a process that ends at ${point} leaves the event to the next look, which has its effect once`, async () => {
    await using shop = await owing()
    await shop.collect()
    await shop.tell(shop.double.invoice(remoteOf(shop), 'paid', 'invoice.paid'))
    {
      using _ = armFailpoint(point, () => {
        throw new Error('ended here')
      })
      await shop.collect()
    }
    shop.w.clock.ahead_ms += LIMITS.payment.retry_seconds_max * 1000
    await shop.collect()
    const records = await shop.w.database.superuser.selectFrom('audit_events').select('id').where('action', '=', 'invoices.paid').execute()
    assert.deepEqual([await mine(shop, shop.id), records.length], ['paid', 1])
  })
}

test('a process that ends at payment.P3 leaves a complete remote invoice, which is found and not made twice', async () => {
  await using shop = await owing()
  {
    using _ = armFailpoint('payment.P3', () => {
      throw new Error('ended here')
    })
    await shop.collect()
  }
  assert.equal((await failed(shop))[0]?.pushed_at, null)
  shop.w.clock.ahead_ms += LIMITS.payment.retry_seconds_max * 1000
  await shop.collect()
  assert.deepEqual([there(shop), (await failed(shop))[0]?.pushed_at !== null], [[['open', 5200]], true])
})

for (const state of ['paid', 'void'] as const) {
  test(`an invoice that an operator says is ${state} is so there, too`, async () => {
    await using shop = await owing()
    await shop.collect()
    await operate(shop, shop.id, state)
    await shop.collect()
    assert.deepEqual([there(shop), await mine(shop, shop.id)], [[[state, 5200]], state])
    await shop.tell(shop.double.event(`invoice.${state}`, shop.double.of('invoice')[0] ?? {}))
    await shop.collect()
    assert.equal(await mine(shop, shop.id), state)
  })
}

for (const step of ['POST invoices', 'finalize']) {
  test(`an invoice that an operator says is paid during ${step} is not collected there, whatever another process does meanwhile`, async () => {
    await using shop = await owing()
    let is_paid = false
    shop.double.before_answer = async (at) => {
      if (is_paid || !(at.startsWith(step) || at.endsWith(step))) return
      is_paid = true
      await operate(shop, shop.id, 'paid')
      await shop.collect()
    }
    await shop.collect()
    assert.ok(is_paid)
    await shop.collect()
    assert.deepEqual(
      there(shop).filter(([status]) => status !== 'paid'),
      [],
    )
    const [row] = await shop.w.database.superuser.selectFrom('payment_invoices').select('settled_at').execute()
    assert.notEqual(row?.settled_at, null)
  })
}

test('an invoice that is voided before its push is never created remotely', async () => {
  await using shop = await owing()
  await operate(shop, shop.id, 'void')
  await shop.collect()
  assert.deepEqual(there(shop), [])
})

test('an invoice that is voided during its push is removed remotely', async () => {
  await using shop = await owing()
  shop.double.before_answer = async (at) => {
    if (at.endsWith('finalize')) shop.double.mood = 'hangs_up'
  }
  await shop.collect()
  shop.double.mood = 'serves'
  assert.deepEqual(there(shop), [['draft', 5200]])
  await operate(shop, shop.id, 'void')
  await shop.collect()
  assert.deepEqual(there(shop), [])
})

test('a remote void voids the invoice here, and the next poll makes up for a lost event', async () => {
  await using shop = await owing()
  await shop.collect()
  shop.double.invoice(remoteOf(shop), 'void', 'invoice.voided')
  await shop.collect()
  assert.equal(await mine(shop, shop.id), 'open')
  shop.w.clock.ahead_ms += (LIMITS.payment.look_again_seconds + 60) * 1000
  await shop.collect()
  assert.equal(await mine(shop, shop.id), 'void')
})

test('an invoice whose remote total differs is never collected', async () => {
  await using shop = await owing()
  await shop.w.database.superuser.updateTable('invoices').set({ total_minor: 5201 }).execute()
  await shop.collect()
  assert.deepEqual(there(shop), [['draft', 5200]])
  assert.match((await failed(shop))[0]?.last_error ?? '', /another total/)
})

test('no key and no secret appears in a log, whatever the payment service answers', async () => {
  const lines: string[] = []
  const { default: pino } = await import('pino')
  const logger = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) })
  await using shop = await openShop({}, logger)
  await shop.buy()
  await shop.tell(shop.double.pay(shop.page()))
  for (const mood of ['refuses', 'hangs_up'] as const) {
    shop.double.mood = mood
    shop.w.clock.ahead_ms += LIMITS.payment.retry_seconds_max * 1000
    await shop.collect()
  }
  const all = lines.join('\n')
  assert.match(all, /payment service/)
  assert.deepEqual(
    [shop.double.config.secret_key, shop.double.config.webhook_secret, 'Bearer', 'authorization'].filter((word) => all.includes(word)),
    [],
  )
})
