import assert from 'node:assert/strict'
import { test } from 'node:test'
import { secondsLeft } from './window.ts'

test('the seconds left of a window lie between 1 and its length', () => {
  const now = new Date(1_000_000)
  const left = (began_ms: number) => secondsLeft(new Date(began_ms), 600, now)
  assert.deepEqual([1_000_001, 1_000_000, 999_999, 700_000, 400_500, 100_000].map(left), [600, 600, 600, 300, 1, 1])
})
