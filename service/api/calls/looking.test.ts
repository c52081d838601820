import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startPoller } from './looking.ts'

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
