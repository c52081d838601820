import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { METERS, type Units } from '../../../../contract/schemas/usage.ts'
import { testSeed } from '../../../../tests/support/seed.ts'
import { drawsOf, grantedBy, remainingOf, type Grant } from './grants.ts'

const NOW = new Date('2031-04-16T00:00:00Z')
const NOTHING = Object.fromEntries(METERS.map((meter) => [meter, 0])) as Units
const PLAN = { cpu_hours: 1, ram_gib_hours: null }
const used = (cpu_seconds: number): Units => ({ ...NOTHING, cpu_seconds })

function grant(id: string, granted_meter_units: number, change: Partial<Grant> = {}): Grant {
  const nothing = { drawn_meter_units: 0, drawn_in_period: 0, expires_at: null, revoked_at: null }
  return { id, allowance: 'cpu_hours', granted_meter_units, created_at: NOW, ...nothing, ...change }
}

test('usage beyond the plan is drawn from the oldest grant first, and never from an ended grant', () => {
  const grants = [
    grant('expired', 9999, { expires_at: NOW }),
    grant('revoked', 9999, { revoked_at: NOW }),
    grant('other', 9999, { allowance: 'ram_gib_hours' }),
    grant('oldest', 1000),
    grant('newest', 1000, { expires_at: new Date(NOW.getTime() + 1) }),
  ]
  const drawn = (cpu_seconds: number) => drawsOf(PLAN, used(cpu_seconds), grants, NOW)
  assert.deepEqual([drawn(3600), drawn(3601)], [[], [{ grant_id: 'oldest', meter_units: 1 }]])
  const both = [
    { grant_id: 'oldest', meter_units: 1000 },
    { grant_id: 'newest', meter_units: 1000 },
  ]
  assert.deepEqual(drawn(99_999), both)
  assert.deepEqual(drawsOf({ ...PLAN, cpu_hours: null }, used(99_999), grants, NOW), [])
  assert.deepEqual(grantedBy(grants, NOW), { cpu_hours: 2000, ram_gib_hours: 9999 })
})

test('draws count in their period after the grant has ended, and a repeated call draws nothing', () => {
  const over = grant('over', 500, { drawn_meter_units: 300, drawn_in_period: 200, expires_at: NOW })
  assert.deepEqual([remainingOf(over, NOW), grantedBy([over], NOW).cpu_hours], [0, 200])
  assert.deepEqual(drawsOf(PLAN, used(3800), [over, grant('next', 50)], NOW), [])
  assert.deepEqual(drawsOf(PLAN, used(3801), [over, grant('next', 50)], NOW), [{ grant_id: 'next', meter_units: 1 }])
})

test('no grant is overdrawn, and draws cover exactly the usage beyond the plan while grants last', () => {
  const step = fc.record({ more: fc.nat(4000), ms: fc.nat(5000) })
  const given = fc.record({ units: fc.integer({ min: 1, max: 5000 }), ends_ms: fc.option(fc.nat(40_000)) })
  fc.assert(
    fc.property(fc.array(given, { maxLength: 5 }), fc.array(step, { maxLength: 20 }), (all, steps) => {
      let grants = all.map(({ units, ends_ms }, at) =>
        grant(String(at), units, { expires_at: ends_ms === null ? null : new Date(NOW.getTime() + ends_ms) }),
      )
      let [cpu_seconds, now] = [0, NOW]
      for (const { more, ms } of steps) {
        cpu_seconds += more
        now = new Date(now.getTime() + ms)
        const draws = drawsOf(PLAN, used(cpu_seconds), grants, now)
        grants = grants.map((one) => {
          const units = draws.find(({ grant_id }) => grant_id === one.id)?.meter_units ?? 0
          assert.ok(units === 0 || one.expires_at === null || one.expires_at > now)
          return { ...one, drawn_meter_units: one.drawn_meter_units + units, drawn_in_period: one.drawn_in_period + units }
        })
        const drawn = grants.reduce((sum, one) => sum + one.drawn_meter_units, 0)
        const left = grants.reduce((sum, one) => sum + remainingOf(one, now), 0)
        assert.ok(grants.every((one) => one.drawn_meter_units <= one.granted_meter_units))
        assert.ok(drawn <= Math.max(0, cpu_seconds - 3600))
        assert.ok(left === 0 || drawn === Math.max(0, cpu_seconds - 3600), `${drawn} ${left}`)
      }
    }),
    { seed: testSeed(), numRuns: 300 },
  )
})
