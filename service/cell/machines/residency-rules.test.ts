import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  keptBy,
  parkAfterOf,
  residencyStep,
  wasBusy,
  type Kept,
  type Counters,
  type ParkAfter,
  type ResidencyFacts,
} from './residency-rules.ts'

const NOW = new Date('2026-01-01T12:00:00Z')
const ago = (seconds: number) => new Date(NOW.getTime() - seconds * 1000)
const AFTER: ParkAfter = { freeze_after_seconds: 5, hibernate_after_seconds: 600 }
const UNUSED: ResidencyFacts = {
  state: 'running',
  held: false,
  in_use: false,
  keepalive_until: null,
  hinted_until: null,
  used_at: ago(3600),
  busy_at: ago(3600),
}

const CASES: [fact: string, facts: Partial<ResidencyFacts>, step: ReturnType<typeof residencyStep>, after?: Partial<ParkAfter>][] = [
  ['unused and quiet for long enough is frozen', { used_at: ago(5), busy_at: ago(5) }, 'freeze'],
  ['a moment less is watched', { used_at: ago(4.999), busy_at: ago(5) }, 'watch'],
  ['processor or network used a moment ago is watched', { busy_at: ago(4.999) }, 'watch'],
  ['what was never looked at is watched, however long unused', { busy_at: null }, 'watch'],
  ['a call in progress, a stream, a terminal keeps it', { in_use: true }, 'keep'],
  ['a keepalive keeps it', { keepalive_until: ago(-0.001) }, 'keep'],
  ['a keepalive that is over does not', { keepalive_until: NOW }, 'freeze'],
  ['a hint keeps it', { hinted_until: ago(-0.001) }, 'keep'],
  ['a hint that is over does not', { hinted_until: NOW }, 'freeze'],
  ['an operation keeps it as it is', { held: true }, 'keep'],
  ['an operation keeps it as it is, frozen too', { held: true, state: 'frozen', in_use: true }, 'keep'],
  ['a paused one is an operation’s', { state: 'paused' }, 'keep'],
  ['frozen stays frozen', { state: 'frozen', used_at: ago(599.999) }, 'keep'],
  ['frozen and unused for longer is hibernated', { state: 'frozen', used_at: ago(600) }, 'hibernate'],
  ['frozen with a call on it is thawed', { state: 'frozen', in_use: true }, 'thaw'],
  ['frozen with a keepalive is thawed', { state: 'frozen', keepalive_until: ago(-1) }, 'thaw'],
  ['frozen with a hint is thawed', { state: 'frozen', hinted_until: ago(-1) }, 'thaw'],
  ['never frozen, it may still be hibernated', {}, 'hibernate', { freeze_after_seconds: 0 }],
  ['never frozen, it is watched until then', { used_at: ago(599) }, 'watch', { freeze_after_seconds: 0 }],
  ['never hibernated, it stays frozen', { state: 'frozen' }, 'keep', { hibernate_after_seconds: 0 }],
  ['never parked, it is not even watched', {}, 'keep', { freeze_after_seconds: 0, hibernate_after_seconds: 0 }],
]

for (const [fact, facts, step, after] of CASES) {
  test(`residency: ${fact}`, () => assert.equal(residencyStep({ ...UNUSED, ...facts }, { ...AFTER, ...after }, NOW), step))
}

const REASONS: [
  facts: Partial<ResidencyFacts>,
  commands_run: boolean,
  kept: [Kept['reason'], seconds: number | null],
  after?: Partial<ParkAfter>,
][] = [
  [{ held: true, in_use: true }, true, ['operation', null]],
  [{ state: 'paused' }, false, ['operation', null]],
  [{ in_use: true, keepalive_until: ago(-1) }, true, ['use', null]],
  [{ keepalive_until: ago(-1), hinted_until: ago(-1) }, true, ['keepalive', null]],
  [{ hinted_until: ago(-1) }, true, ['wake_hint', null]],
  [{}, true, ['command', null]],
  [{ used_at: ago(9), busy_at: ago(2) }, false, ['busy', 3]],
  [{ busy_at: null }, false, ['busy', 5]],
  [{ used_at: ago(2), busy_at: ago(2) }, false, ['recent', 3]],
  [{ used_at: ago(2), busy_at: ago(9) }, false, ['recent', 598], { freeze_after_seconds: 0 }],
  [{}, true, ['never_parked', null], { freeze_after_seconds: 0, hibernate_after_seconds: 0 }],
]

for (const [facts, commands_run, [reason, seconds], after] of REASONS) {
  test(`residency: ${JSON.stringify(facts)}${commands_run ? ' with commands' : ''} is resident for ${reason}`, () => {
    const park_at = seconds === null ? null : ago(-seconds)
    assert.deepEqual(keptBy({ ...UNUSED, ...facts }, commands_run, { ...AFTER, ...after }, NOW), { reason, park_at })
  })
}

test('residency: background work delays parking, never hastens it, and does not turn it on', () => {
  const own = (seconds: number, cell: Partial<ParkAfter> = {}) => {
    const { freeze_after_seconds, hibernate_after_seconds, by } = parkAfterOf({ ...AFTER, ...cell }, { seconds, by: 'template' })
    return [freeze_after_seconds, hibernate_after_seconds, by]
  }
  assert.deepEqual(parkAfterOf(AFTER, null), { ...AFTER, by: 'cell' })
  assert.deepEqual(own(6), [6, 601, 'template'])
  assert.deepEqual(own(5), [5, 600, 'cell'])
  assert.deepEqual(own(900, { freeze_after_seconds: 0 }), [0, 900, 'template'])
  assert.deepEqual(own(900, { hibernate_after_seconds: 0 }), [900, 0, 'template'])
  assert.deepEqual(own(900, { freeze_after_seconds: 0, hibernate_after_seconds: 0 }), [0, 0, 'cell'])
})

const NONE: Counters = { cpu_usec: 0, rx_bytes: 0, tx_bytes: 0, questions_ended: 0, questions_begun: 0 }

test('residency: use by the engine and by our own queries does not count; processor and network beyond that do', () => {
  const asked = { ...NONE, questions_begun: 1, questions_ended: 1 }
  assert.equal(wasBusy(NONE, { ...NONE, cpu_usec: 60_000, rx_bytes: 200, tx_bytes: 200 }, 1000), false)
  assert.equal(wasBusy(NONE, { ...NONE, cpu_usec: 60_001 }, 1000), true)
  assert.equal(wasBusy(NONE, { ...NONE, rx_bytes: 201 }, 1000), true)
  assert.equal(wasBusy(NONE, { ...NONE, tx_bytes: 201 }, 1000), true)
  assert.equal(wasBusy(NONE, { ...asked, cpu_usec: 65_000, rx_bytes: 1050, tx_bytes: 1050 }, 1000), false)
  assert.equal(wasBusy(NONE, { ...asked, rx_bytes: 1051 }, 1000), true)
})

test('residency: a query under way at a sample counts before and after it, and a finished one only before', () => {
  const under_way = { ...NONE, questions_begun: 1 }
  const over = { ...under_way, questions_ended: 1 }
  const later = { ...over, rx_bytes: 1050 }
  assert.equal(wasBusy(NONE, under_way, 1000), false)
  assert.equal(wasBusy(under_way, later, 1000), false)
  assert.equal(wasBusy(over, later, 1000), true)
})
