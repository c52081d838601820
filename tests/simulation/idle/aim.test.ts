import assert from 'node:assert/strict'
import { test } from 'node:test'
import { adaptive, clairvoyant, FIXED_MINUTES, replay, total } from './replay.ts'
import { tracesOf } from './traces.ts'

// Checks the aim of decision 14 on other traces than those printed there.
const SEEDS = [2, 3, 5, 8, 13]
const costOf = (gaps: readonly number[], seconds: number) => total(replay(gaps, () => seconds))
const FIXED_SECONDS = [10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1800, 3600, 7200, 14_400]

for (const seed of SEEDS) {
  const traces = tracesOf(seed)
  for (const { name, gaps } of traces) {
    test(`the learned timeout costs at most 1.05 of the best fixed one in hindsight, and 1.5 of knowing every gap: ${name}, seed ${seed}`, () => {
      const learned = total(replay(gaps, adaptive))
      const best = Math.min(...FIXED_SECONDS.map((seconds) => costOf(gaps, seconds)))
      assert.ok(learned <= 1.05 * best, `${learned / best} of the best fixed`)
      assert.ok(learned <= 1.5 * clairvoyant(gaps), `${learned / clairvoyant(gaps)} of the best there is`)
    })
  }

  test(`over all kinds of use it costs at most 0.9 of each fixed timeout, seed ${seed}`, () => {
    const sum = (one: (gaps: number[]) => number) => traces.reduce((all, { gaps }) => all + one(gaps), 0)
    const learned = sum((gaps) => total(replay(gaps, adaptive)))
    for (const minutes of FIXED_MINUTES) {
      const fixed = sum((gaps) => costOf(gaps, minutes * 60))
      assert.ok(learned <= 0.9 * fixed, `${learned / fixed} of ${minutes} minutes`)
    }
  })
}
