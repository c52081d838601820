import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { METERS, type Units } from '../../../../contract/schemas/usage.ts'
import { NO_GRANTS } from './allowances.ts'
import { hasOverage, exhaustionOf, projectedReach, spendCapOf, type Prices, type OveragePolicy, type SpendFacts } from './spend.ts'

const PERIOD = { starts_at: new Date('2031-04-01T00:00:00Z'), ends_at: new Date('2031-05-01T00:00:00Z') }
const NOW = new Date('2031-04-16T00:00:00Z') // the middle of the period
const PLAN: Prices = { cpu_hours: 10, ram_gib_hours: 20, currency: 'EUR', price_minor: 5000, cpu_hour_minor: 10, ram_gib_hour_minor: 3 }
const ON: OveragePolicy = { overage_enabled: true, spend_cap_minor: 1000, enabled_in: PERIOD.starts_at }
const NOTHING = Object.fromEntries(METERS.map((meter) => [meter, 0])) as Units

function facts(cpu_seconds: number, given: Partial<SpendFacts> = {}): SpendFacts {
  return { prices: PLAN, choice: ON, used: { ...NOTHING, cpu_seconds }, granted: NO_GRANTS, period: PERIOD, past_due: false, ...given }
}
const stateAt = (cpu_seconds: number, given: Partial<SpendFacts> = {}) => spendCapOf(facts(cpu_seconds, given), NOW).state
const INCLUDED = 36_000
const hours = (count: number) => INCLUDED + count * 3600

test('a cap goes from within allowance to accruing, to warning at 80 percent, to reached, by whole hours', () => {
  assert.deepEqual(
    [INCLUDED - 1, INCLUDED, hours(79), hours(80) - 1, hours(80), hours(100) - 1, hours(100)].map((used) => stateAt(used)),
    ['within_allowance', 'accruing', 'accruing', 'accruing', 'warning', 'warning', 'reached'],
  )
  const { lines, charges_minor, remaining_minor, percent_of_cap, max_cap_minor } = spendCapOf(facts(hours(80) - 1), NOW)
  assert.deepEqual(lines[0], {
    allowance: 'cpu_hours',
    units_over: (80 * 3600 - 1) / 3600,
    billed_units: 79,
    rate_minor: 10,
    amount_minor: 790,
  })
  assert.deepEqual([charges_minor, remaining_minor, percent_of_cap, max_cap_minor], [790, 210, 79, 5000])
})

test('spend states name overage that is off, paused or unavailable, and each refuses starts with its own reason', () => {
  const off = { choice: { ...ON, overage_enabled: false } }
  const without = { prices: { ...PLAN, cpu_hour_minor: null } }
  assert.deepEqual(
    [stateAt(hours(1), off), stateAt(hours(1), { past_due: true }), stateAt(hours(1), without)],
    ['off', 'paused', 'unavailable'],
  )
  const reason = (used: number, given: Partial<SpendFacts> = {}) => exhaustionOf(facts(used, given))?.reason ?? null
  assert.deepEqual(
    [
      reason(INCLUDED - 1),
      reason(hours(99)),
      reason(hours(100)),
      reason(INCLUDED, off),
      reason(INCLUDED, { past_due: true }),
      reason(INCLUDED, without),
    ],
    [null, null, 'spend_cap_reached', 'allowance_used', 'overage_paused', 'allowance_used'],
  )
  assert.equal(exhaustionOf(facts(INCLUDED, without))?.state.spend_cap, null)
  assert.deepEqual(exhaustionOf(facts(hours(100)))?.state.spend_cap, {
    cap_minor: 1000,
    effective_cap_minor: 1000,
    charges_minor: 1000,
    currency: 'EUR',
  })
})

test("the cap never exceeds the plan's price, and charges stay due when overage is turned off within the period", () => {
  assert.equal(spendCapOf(facts(0, { choice: { ...ON, spend_cap_minor: 9000 } }), NOW).effective_cap_minor, 5000)
  const turned_off = { ...ON, overage_enabled: false }
  assert.equal(spendCapOf(facts(hours(5), { choice: turned_off }), NOW).charges_minor, 50)
  assert.equal(
    spendCapOf(facts(hours(5), { choice: { ...turned_off, enabled_in: new Date('2031-03-01T00:00:00Z') } }), NOW).charges_minor,
    0,
  )
})

test('the projection is the time at which the average usage reaches the cap, and null after the period', () => {
  // Half of the period used 80 hours, so 160 are projected. With 10 free hours, 100 charged hours are reached at 110.
  const reach = projectedReach(facts(80 * 3600), 1000, NOW)
  const at = PERIOD.starts_at.getTime() + (110 / 160) * 30 * 24 * 3600_000
  assert.ok(reach !== null && Math.abs(reach.getTime() - at) < 3600_000, String(reach?.toISOString()))
  assert.equal(projectedReach(facts(50 * 3600), 1000, NOW), null)
  assert.equal(projectedReach(facts(hours(100)), 1000, NOW)?.getTime(), NOW.getTime())
})

test('charges are whole numbers, starts are refused once the cap is reached, and overage needs prices', () => {
  const minor = fc.option(fc.integer({ min: 0, max: 100_000 }))
  const limit = fc.option(fc.integer({ min: 0, max: 1000 }))
  const prices: fc.Arbitrary<Prices> = fc.record({
    cpu_hours: limit,
    ram_gib_hours: limit,
    currency: fc.option(fc.constant('EUR')),
    price_minor: minor,
    cpu_hour_minor: minor,
    ram_gib_hour_minor: minor,
  })
  const choice = fc.record({ overage_enabled: fc.boolean(), spend_cap_minor: minor, enabled_in: fc.option(fc.constant(PERIOD.starts_at)) })
  const used = fc.record({ cpu_seconds: fc.nat(1e7), memory_gib_seconds: fc.nat(1e7) }).map((some) => ({ ...NOTHING, ...some }))
  fc.assert(
    fc.property(prices, choice, used, fc.boolean(), (prices, choice, used, past_due) => {
      const one = { prices, choice, used, granted: NO_GRANTS, period: PERIOD, past_due }
      const { state, charges_minor, effective_cap_minor, lines } = spendCapOf(one, NOW)
      assert.ok(Number.isInteger(charges_minor) && charges_minor === lines.reduce((sum, line) => sum + line.amount_minor, 0))
      const found = exhaustionOf(one)
      if (!hasOverage(prices))
        assert.deepEqual([state, charges_minor, found === null || found.reason === 'allowance_used'], ['unavailable', 0, true])
      if (found === null) assert.ok(charges_minor === 0 || (effective_cap_minor !== null && charges_minor < effective_cap_minor))
      assert.equal(state === 'reached' && found !== null && !past_due ? found.reason : 'spend_cap_reached', 'spend_cap_reached')
    }),
    { seed: 1, numRuns: 500 },
  )
})
