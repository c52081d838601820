import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMITS } from '../../../contract/limits.ts'
import { noteGap } from '../../../tests/support/idle-gaps.ts'
import { EDGES, GAPS_MIN, learnedSeconds, type IdleGaps } from './idle-gaps.ts'

const learn = (...gaps: number[]) => gaps.reduce<IdleGaps | null>((seen, gap) => noteGap(seen, gap), null)
const times = (count: number, gap: number) => Array.from({ length: count }, () => gap)
const { adaptive_seconds_min: MIN, adaptive_seconds_max: MAX } = LIMITS.idle

test('there are 25 timeouts, from 10 seconds to 4 hours', () => {
  assert.deepEqual([EDGES.length, EDGES[0], Math.round(EDGES.at(-1) ?? 0)], [25, MIN, MAX])
})

test('a timeout is learned only from the minimum number of gaps', () => {
  assert.equal(learnedSeconds(null), null)
  assert.equal(learnedSeconds(learn(...times(GAPS_MIN - 1, 20))), null)
  assert.notEqual(learnedSeconds(learn(...times(GAPS_MIN, 20))), null)
  assert.notEqual(learnedSeconds(learn(...times(GAPS_MIN, 20))?.map(Math.fround) ?? null), null)
})

for (const [what, gaps, least, most] of [
  ['gaps that are all too long to wait for', times(50, 86_400), MIN, MIN],
  ['gaps of two minutes', times(50, 120), 120, 170],
  ['gaps of 25 minutes, longer than a wake is worth', times(50, 1500), MIN, MIN],
  ['gaps of 30 seconds, and a night now and then', [...times(40, 30), 50_000, ...times(9, 30)], 30, 45],
  ['seconds that would crowd out the rest if they were kept', [...times(10, 120), ...times(5000, 3)], 120, 170],
] as const) {
  test(`from ${what} a timeout of ${least === most ? least : `${least} to ${most}`} seconds is learned`, () => {
    const seconds = learnedSeconds(learn(...gaps)) ?? Number.NaN
    assert.ok(seconds >= least && seconds <= most, String(seconds))
  })
}

test('a changed pattern replaces the earlier one within a hundred gaps', () => {
  assert.equal(learnedSeconds(learn(...times(500, 120), ...times(100, 7000))), MIN)
})
