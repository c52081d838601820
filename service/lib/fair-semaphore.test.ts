import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { test } from 'node:test'
import { fail } from './fail.ts'
import { createFairSemaphore, type FairSemaphoreLimits } from './fair-semaphore.ts'

const refusal = () => fail('rate_limited', null, 'Too much waits')
const LIMITS: FairSemaphoreLimits = { at_once: 1, waiting_per_name: 10, waiting: 20 }

function bench(limits: Partial<FairSemaphoreLimits> = {}) {
  const line = createFairSemaphore({ ...LIMITS, ...limits }, refusal)
  const begun: string[] = []
  const ends: (() => void)[] = []
  const ask = (name: string, signal?: AbortSignal) =>
    line
      .run(
        name,
        () => {
          begun.push(name)
          const { promise, resolve } = Promise.withResolvers<void>()
          ends.push(resolve)
          return promise
        },
        signal,
      )
      .then(
        () => 'done',
        (error: unknown) => (error instanceof Error ? error.message : String(error)),
      )
  const endOne = async () => {
    ends.shift()?.()
    await setImmediate()
  }
  return { line, begun, ask, endOne, running: () => ends.length }
}

test('names alternate: the second name is next, however many calls of the first wait', async () => {
  const { begun, ask, endOne } = bench()
  const all = [ask('a'), ask('a'), ask('a'), ask('b'), ask('a'), ask('c')]
  for (let ended = 0; ended < all.length; ended++) await endOne()
  assert.deepEqual(begun, ['a', 'a', 'b', 'c', 'a', 'a'])
  assert.deepEqual(new Set(await Promise.all(all)), new Set(['done']))
})

test('with a limit per name one name never takes all permits', async () => {
  const { begun, ask, endOne, running } = bench({ at_once: 2, at_once_per_name: 1 })
  const all = [ask('a'), ask('a'), ask('a')]
  await setImmediate()
  assert.deepEqual([begun, running()], [['a'], 1])
  all.push(ask('b'))
  await setImmediate()
  assert.deepEqual(begun, ['a', 'b'])
  for (let ended = 0; ended < all.length; ended++) await endOne()
  assert.deepEqual(await Promise.all(all), ['done', 'done', 'done', 'done'])
})

test('a name with a full queue is refused, and the longest queue gives up its last entry for another name', async () => {
  const { line, ask, endOne } = bench({ waiting_per_name: 3, waiting: 4 })
  const [first, ...of_a] = [ask('a'), ask('a'), ask('a'), ask('a')]
  assert.equal(await ask('a'), 'Too much waits')
  const others = [ask('b'), ask('c')]
  assert.equal(await of_a[2], 'Too much waits', 'the last of the longest line')
  assert.equal(line.waiting(), 4)
  for (let ended = 0; ended < 5; ended++) await endOne()
  assert.deepEqual(await Promise.all([first, of_a[0], of_a[1], ...others]), ['done', 'done', 'done', 'done', 'done'])
})

test('a caller that aborts leaves the queue', async () => {
  const { line, begun, ask, endOne } = bench()
  const [first, leaving] = [ask('a'), new AbortController()]
  const left = ask('b', leaving.signal)
  const last = ask('c')
  leaving.abort('gone')
  assert.deepEqual([await left, line.waiting()], ['gone', 1])
  await endOne()
  await endOne()
  assert.deepEqual([await first, await last, begun], ['done', 'done', ['a', 'c']])
})
