// Checks the numbers of docs/guides/usage.md.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { METERS, type Units } from '../../../../contract/schemas/usage.ts'
import { invoiceLines, spansOf, type Terms } from '../billing/terms.ts'
import { NO_GRANTS } from './allowances.ts'
import { drawsOf } from './grants.ts'
import { exhaustionOf, spendCapOf, type SpendFacts } from './spend.ts'

const GUIDE = readFileSync(path.resolve(import.meta.dirname, '../../../../docs/guides/usage.md'), 'utf8')
const PERIOD = { starts_at: new Date('2031-04-01T00:00:00Z'), ends_at: new Date('2031-05-01T00:00:00Z') }
const MIDDLE = new Date('2031-04-16T00:00:00Z')
const NOTHING = Object.fromEntries(METERS.map((meter) => [meter, 0])) as Units
const used = (cpu_hours: number): Units => ({ ...NOTHING, cpu_seconds: Math.round(cpu_hours * 3600) })
const TEAM = { cpu_hours: 100, ram_gib_hours: 400, currency: 'EUR', price_minor: 5000, cpu_hour_minor: 10, ram_gib_hour_minor: 3 }

const says = (text: string) => assert.ok(GUIDE.includes(text), `docs/guides/usage.md does not say: ${text}`)

test("the guide's example of overage matches the charges", () => {
  const facts = (hours: number): SpendFacts => ({
    prices: TEAM,
    choice: { overage_enabled: true, spend_cap_minor: 375, enabled_in: PERIOD.starts_at },
    used: used(hours),
    granted: NO_GRANTS,
    period: PERIOD,
    past_due: false,
  })
  says(
    'Of 130.9 hours, 30.9 are beyond, 30 are whole: 3.00 EUR. With a cap of 3.75 EUR that is 80 percent of it, and `spend_cap.state` is `warning`.',
  )
  const { lines, charges_minor, percent_of_cap, state } = spendCapOf(facts(130.9), MIDDLE)
  assert.deepEqual([lines[0]?.units_over.toFixed(1), lines[0]?.billed_units], ['30.9', 30])
  assert.deepEqual([charges_minor, percent_of_cap, state], [300, 80, 'warning'])
  says('At 138 hours (3.80 EUR) the cap is passed')
  assert.deepEqual([spendCapOf(facts(138), MIDDLE).charges_minor, exhaustionOf(facts(138))?.reason], [380, 'spend_cap_reached'])
})

test("the guide's example of a credit matches the draws", () => {
  says(
    'the plan includes 100 CPU-hours, a credit has 50. Of 130 hours 30 are drawn, 20 are left for the next month, and nothing is charged.',
  )
  const credit = { drawn_meter_units: 0, drawn_in_period: 0, created_at: PERIOD.starts_at, expires_at: null, revoked_at: null }
  const grants = [{ id: 'one', allowance: 'cpu_hours' as const, granted_meter_units: 50 * 3600, ...credit }]
  assert.deepEqual(drawsOf(TEAM, used(130), grants, MIDDLE), [{ grant_id: 'one', meter_units: 30 * 3600 }])
})

test("the guide's example of an invoice matches the invoice", () => {
  says(
    'a plan of 50.00 EUR that begins in the middle of April costs 25.00 EUR, and 4 CPU-hours beyond its allowance at 1.00 EUR come to 29.00 EUR.',
  )
  const terms: Terms = { ...TEAM, plan: 'team', cpu_hour_minor: 100 }
  const overage = { was_on: true, spend_cap_minor: 5000 }
  const lines = invoiceLines(spansOf(terms, [], PERIOD, { from: MIDDLE, until: null }), {
    used: used(104),
    granted: NO_GRANTS,
    period: PERIOD,
    overage,
  })
  assert.deepEqual(
    lines.get('EUR')?.map(({ kind, amount_minor }) => [kind, amount_minor]),
    [
      ['plan', 2500],
      ['overage', 400],
    ],
  )
})
