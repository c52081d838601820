import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { METERS, type Units } from '../../../../contract/schemas/usage.ts'
import { testSeed } from '../../../../tests/support/seed.ts'
import { NO_GRANTS } from '../usage/allowances.ts'
import { invoiceLines, proratedPrice, spansOf, type Overage, type Terms, type TermsBefore } from './terms.ts'
import { paymentStanding } from './payment.ts'

const PERIOD = { starts_at: new Date('2031-04-01T00:00:00Z'), ends_at: new Date('2031-05-01T00:00:00Z') }
const LONG_AGO = new Date('2030-01-01T00:00:00Z')
const day = (number: number) => new Date(PERIOD.starts_at.getTime() + (number - 1) * 24 * 3600_000)
const NOTHING = Object.fromEntries(METERS.map((meter) => [meter, 0])) as Units
const OFF: Overage = { was_on: false, spend_cap_minor: null }
const ON: Overage = { was_on: true, spend_cap_minor: 1000 }

function terms(plan: string, price_minor: number | null, change: Partial<Terms> = {}): Terms {
  return {
    plan,
    currency: 'EUR',
    price_minor,
    cpu_hours: 10,
    ram_gib_hours: null,
    cpu_hour_minor: 100,
    ram_gib_hour_minor: null,
    ...change,
  }
}

const until = (number: number, before: Terms): TermsBefore => ({ ...before, changed_at: day(number) })

function amounts(
  current: Terms,
  changes: TermsBefore[],
  { used = NOTHING, overage = OFF, created_at = LONG_AGO, deleted_at = null as Date | null } = {},
) {
  const lines = invoiceLines(spansOf(current, changes, PERIOD, { from: created_at, until: deleted_at }), {
    used,
    granted: NO_GRANTS,
    period: PERIOD,
    overage,
  })
  return [...lines].map(([currency, all]) => [currency, ...all.map(({ kind, plan, amount_minor }) => `${kind} ${plan} ${amount_minor}`)])
}

test('a plan costs its full price for a whole month, and a share by time when it changes', () => {
  const [small, large] = [terms('small', 3000), terms('large', 9001)]
  assert.deepEqual(amounts(small, []), [['EUR', 'plan small 3000']])
  assert.deepEqual(amounts(large, [until(11, small)]), [['EUR', 'plan small 1000', 'plan large 6001']])
  assert.deepEqual(amounts(small, [], { created_at: day(16) }), [['EUR', 'plan small 1500']])
  // Changes outside of the period do not affect it.
  assert.deepEqual(amounts(large, [until(-5, small)]), [['EUR', 'plan large 9001']])
  assert.deepEqual(amounts(large, [until(31 + 5, small)]), [['EUR', 'plan small 3000']])
  assert.deepEqual(amounts(terms('small', 3000, { cpu_hours: 20 }), [until(11, small)]), [['EUR', 'plan small 3000']])
  assert.deepEqual(amounts(terms('free', null), [until(16, small)]), [['EUR', 'plan small 1500']])
})

test('a deleted organization pays its share of the month and its usage, and nothing for later months', () => {
  const [small, large] = [terms('small', 3000), terms('large', 9000)]
  assert.deepEqual(amounts(small, [], { deleted_at: day(11) }), [['EUR', 'plan small 1000']])
  assert.deepEqual(amounts(large, [until(6, small)], { deleted_at: day(11) }), [['EUR', 'plan small 500', 'plan large 1500']])
  assert.deepEqual(amounts(large, [until(21, small)], { deleted_at: day(11) }), [['EUR', 'plan small 1000']])
  assert.deepEqual(amounts(small, [], { deleted_at: day(41) }), [['EUR', 'plan small 3000']])
  const used = { ...NOTHING, cpu_seconds: 12 * 3600 }
  assert.deepEqual(amounts(small, [], { used, overage: ON, deleted_at: day(11) }), [['EUR', 'plan small 1000', 'overage small 200']])
  assert.deepEqual(amounts(small, [], { used, overage: ON, deleted_at: PERIOD.starts_at }), [])
})

test('each currency has its own invoice lines', () => {
  const dollars = terms('us', 3000, { currency: 'USD' })
  assert.deepEqual(amounts(dollars, [until(16, terms('eu', 2000))]), [
    ['EUR', 'plan eu 1000'],
    ['USD', 'plan us 1500'],
  ])
})

test('overage is charged by the terms at the end of the period, in whole hours, up to the cap', () => {
  const used = (hours: number) => ({ ...NOTHING, cpu_seconds: hours * 3600 })
  const plan = terms('p', 5000)
  assert.deepEqual(amounts(plan, [], { used: used(15.9), overage: ON }), [['EUR', 'plan p 5000', 'overage p 500']])
  assert.deepEqual(amounts(plan, [], { used: used(30), overage: ON }), [['EUR', 'plan p 5000', 'overage p 2000', 'cap p -1000']])
  assert.deepEqual(amounts(plan, [], { used: used(30) }), [['EUR', 'plan p 5000']])
  assert.deepEqual(amounts(terms('p', 5000, { cpu_hours: 25 }), [until(35, plan)], { used: used(12), overage: ON }), [
    ['EUR', 'plan p 5000', 'overage p 200'],
  ])
})

test('the parts of a month add up to the price exactly, and none is negative', () => {
  const cuts = fc.array(fc.integer({ min: 0, max: 30 * 24 * 3600_000 }), { maxLength: 12 })
  fc.assert(
    fc.property(fc.nat(2 ** 31 - 1), cuts, (price, cuts) => {
      const times = [0, ...cuts.toSorted((a, b) => a - b), 30 * 24 * 3600_000].map((ms) => new Date(PERIOD.starts_at.getTime() + ms))
      const parts = times.slice(1).map((ends_at, at) => proratedPrice(price, { starts_at: times[at] ?? ends_at, ends_at }, PERIOD))
      assert.ok(parts.every((part) => part >= 0 && Number.isInteger(part)))
      assert.equal(
        parts.reduce((sum, part) => sum + part, 0),
        price,
      )
    }),
    { seed: testSeed(), numRuns: 300 },
  )
})

test('an invoice is past due from its due date, and unpaid after the grace time', () => {
  const due_at = day(1)
  const said = (at: Date) => {
    const { payment_refuses_starts, payment_grace_until } = paymentStanding(due_at, at)
    return [payment_refuses_starts, payment_grace_until?.toISOString() ?? null]
  }
  const grace = day(15)
  assert.deepEqual(said(new Date(due_at.getTime() - 1)), [null, null])
  assert.deepEqual(said(due_at), ['payment_past_due', grace.toISOString()])
  assert.deepEqual(said(new Date(grace.getTime() - 1)), ['payment_past_due', grace.toISOString()])
  assert.deepEqual(said(grace), ['unpaid', null])
  assert.deepEqual(paymentStanding(null, grace), { payment_refuses_starts: null, payment_grace_until: null })
})
