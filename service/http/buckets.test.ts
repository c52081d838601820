import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBuckets } from './buckets.ts'

const clock = { ms: 0, now: () => new Date(clock.ms), monotonic_ms: () => clock.ms }

test('a bucket gives its tokens at once, refills evenly and never exceeds its size', () => {
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

test('each name has its own bucket, and beyond the limit the least recently used one is dropped', () => {
  const buckets = createBuckets({ tokens: 1, seconds: 10, names_max: 2 }, clock)
  assert.deepEqual(
    ['a', 'b', 'a', 'c', 'a', 'b'].map((name) => buckets.take(name)),
    [0, 0, 10, 0, 10, 0], // the bucket of c replaced the one of b, which was used before a
  )
})
