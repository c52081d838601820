import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gapAwarePoller, oneAtATime, startPoller } from './poll.ts'

const NEVER_MS = 2 ** 31 - 1

test('passes run one at a time, a poke during one adds one more, and failures are reported', async () => {
  const ends: (() => void)[] = []
  const failures: unknown[] = []
  const looking = startPoller({
    every_ms: NEVER_MS,
    look: () => new Promise<void>((resolve, reject) => ends.push(ends.length === 0 ? () => reject(new Error('once')) : resolve)),
    failed: (error) => failures.push(error),
  })
  looking.poke()
  looking.poke()
  looking.poke()
  assert.equal(ends.length, 1)
  ends[0]?.()
  await new Promise(setImmediate)
  assert.deepEqual([ends.length, failures.length], [2, 1])
  ends[1]?.()
  await looking.close()
  looking.poke()
  assert.equal(ends.length, 2)
})

test('closing stops a running pass and waits for it', async () => {
  let asked: () => boolean = () => assert.fail('no look has begun')
  let end: () => void = () => assert.fail('no look has begun')
  const look = (stopped: () => boolean) => {
    asked = stopped
    return new Promise<void>((resolve) => (end = resolve))
  }
  const looking = startPoller({ every_ms: NEVER_MS, look, failed: (error) => assert.ifError(error) })
  looking.poke()
  assert.equal(asked(), false)
  let is_closed = false
  const closing = looking.close().then(() => (is_closed = true))
  await new Promise(setImmediate)
  assert.deepEqual([asked(), is_closed], [true, false])
  end()
  await closing
})

/** Calls during a pass. `oneAtATime`, for sampling clocks, drops them; pollers of rows run once more. */
const DURING_A_PASS = [
  {
    rule: 'oneAtATime drops a call during a pass',
    passes: 1,
    begin: (work: () => Promise<void>) => {
      const once = oneAtATime(work)
      return () => void once()
    },
  },
  {
    rule: 'a poller begins one more pass after it',
    passes: 2,
    begin: (look: () => Promise<void>) => startPoller({ every_ms: NEVER_MS, look, failed: (error) => assert.ifError(error) }).poke,
  },
]

for (const { rule, passes, begin } of DURING_A_PASS) {
  test(rule, async () => {
    const ends: (() => void)[] = []
    const call = begin(() => new Promise((resolve) => ends.push(resolve)))
    for (let n = 0; n < 3; n++) call()
    ends[0]?.()
    await new Promise(setImmediate)
    assert.equal(ends.length, passes)
    ends.at(-1)?.()
    await new Promise(setImmediate)
    call()
    assert.equal(ends.length, passes + 1)
  })
}

test('after a gap longer than a busy computer explains, everything counts as used from then on', async () => {
  let now = new Date(0)
  const clock = { now: () => now, monotonic_ms: () => now.getTime() }
  const seen: number[] = []
  const tick = gapAwarePoller(clock, new Date(0), async ({ since }) => void seen.push(since.getTime()))
  for (const at of [10_000, 30_000, 50_001, 60_000]) {
    now = new Date(at)
    await tick()
  }
  assert.deepEqual(seen, [0, 0, 50_001, 50_001])
})
