import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBuckets } from './buckets.ts'

const clock = { ms: 0, now: () => new Date(clock.ms), monotonic_ms: () => clock.ms }

test('a bucket gives as many at once as it holds, then one after the other, and never holds more', () => {
  const buckets = createBuckets({ tokens: 3, seconds: 60, names_max: 10 }, clock)
  const take = (times: number) => Array.from({ length: times }, () => buckets.take('a'))
  assert.deepEqual(take(5), [0, 0, 0, 20, 20])
  clock.ms += 5_000
  assert.deepEqual(take(1), [15])
  clock.ms += 15_000
  assert.deepEqual(take(2), [0, 20])
  clock.ms += 3_600_000
  assert.deepEqual(take(4), [0, 0, 0, 20])
  buckets.giveBack('a')
  assert.deepEqual(take(2), [0, 20])
})

test('names have buckets of their own, and of more than may be held the longest unused is forgotten', () => {
  const buckets = createBuckets({ tokens: 1, seconds: 10, names_max: 2 }, clock)
  assert.deepEqual(
    ['a', 'b', 'a', 'c', 'a', 'b'].map((name) => buckets.take(name)),
    [0, 0, 10, 0, 10, 0], // c drove out b, which was used before a
  )
})
