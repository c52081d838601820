import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { whileClockStable } from './stable-clock.ts'

const HOUR_MS = 3600_000

function bench() {
  const at = { wall_ms: 1e12, monotonic_ms: 5 }
  const done: number[] = []
  const lines: string[] = []
  const clock = { now: () => new Date(at.wall_ms), monotonic_ms: () => at.monotonic_ms }
  const log = pino({}, { write: (line: string) => void lines.push(line) })
  const work = whileClockStable(clock, log, 'test', () => Promise.resolve(void done.push(at.wall_ms)))
  /** Advances both clocks by `hours`, and the wall clock by `set_hours` more. @returns whether the work ran */
  const after = async (hours: number, set_hours = 0) => {
    at.monotonic_ms += hours * HOUR_MS
    at.wall_ms += (hours + set_hours) * HOUR_MS
    const before = done.length
    await work()
    return done.length > before
  }
  return { after, lines }
}

test('while the clock is set by more than an hour the work is skipped, with a single log line', async () => {
  const { after, lines } = bench()
  assert.deepEqual([await after(0), await after(1000), await after(0, 0.9)], [true, true, true])
  assert.deepEqual([await after(0.1, 240), await after(0.1), await after(0.1, -240)], [false, false, true])
  assert.deepEqual([await after(0, -240), await after(0, 240)], [false, true])
  assert.equal(lines.length, 2)
})

test('a clock that was set and stays so for a day is believed', async () => {
  const { after } = bench()
  assert.deepEqual([await after(0, 10), await after(23.9), await after(0.2), await after(500)], [false, false, true, true])
  assert.deepEqual([await after(0, 10), await after(23, 10), await after(2), await after(22)], [false, false, false, true])
})
