import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { test } from 'node:test'
import { createFairSemaphore, createKeyedCounts, createSemaphore, type FairSemaphoreLimits } from './bounded.ts'
import { fail } from './fail.ts'

interface Rule {
  rule: string
  limits: FairSemaphoreLimits
  /**
   * Events in order. `a1` requests work under the name a. `end` ends the work that has run longest. `-a1` is a caller that cancels. `late`
   * is the end of `wait_ms`.
   */
  steps: string
  /** Work in the order in which it began. */
  begun: string
  refused?: string
  left?: string
}

const RULES: readonly Rule[] = [
  {
    rule: 'names alternate: the second name is next, however many calls of the first wait',
    limits: { at_once: 1 },
    steps: 'a1 a2 a3 b1 a4 c1 end end end end end end',
    begun: 'a1 a2 b1 c1 a3 a4',
  },
  {
    rule: 'with a limit per name one name never takes all permits',
    limits: { at_once: 2, at_once_per_name: 1 },
    steps: 'a1 a2 a3 b1 end end end end',
    begun: 'a1 b1 a2 a3',
  },
  {
    rule: 'without a limit of all, work waits behind its own name only',
    limits: { at_once_per_name: 2 },
    steps: 'a1 a2 a3 b1 a4 end end end end end',
    begun: 'a1 a2 b1 a3 a4',
  },
  {
    rule: 'a name with a full queue is refused',
    limits: { at_once: 1, waiting_per_name: 2 },
    steps: 'a1 a2 a3 a4 b1 end end end end',
    begun: 'a1 a2 b1 a3',
    refused: 'a4',
  },
  {
    rule: 'the longest queue gives up its last entry for another name',
    limits: { at_once: 1, waiting_per_name: 3, waiting: 4 },
    steps: 'a1 a2 a3 a4 b1 c1 end end end end end',
    begun: 'a1 a2 b1 c1 a3',
    refused: 'a4',
  },
  {
    rule: 'a name is refused where all wait for as much as it would',
    limits: { at_once: 1, waiting: 2 },
    steps: 'a1 b1 c1 d1 end end end',
    begun: 'a1 b1 c1',
    refused: 'd1',
  },
  {
    rule: 'a caller that aborts leaves the queue',
    limits: { at_once: 1 },
    steps: 'a1 b1 c1 -b1 end end',
    begun: 'a1 c1',
    left: 'b1',
  },
  {
    rule: 'work that waits too long is refused, and its place is free',
    limits: { at_once: 1, waiting_per_name: 1, wait_ms: 30 },
    steps: 'a1 a2 late a3 end end',
    begun: 'a1 a3',
    refused: 'a2',
  },
  {
    rule: 'a limit of none refuses all that would wait',
    limits: { at_once: 1, waiting: 0, waiting_per_name: 0 },
    steps: 'a1 b1 end c1 end',
    begun: 'a1 c1',
    refused: 'b1',
  },
]

for (const { rule, limits, steps, begun, refused = '', left = '' } of RULES) {
  test(`fair semaphore: ${rule}`, async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const semaphore = createFairSemaphore(limits, () => fail('rate_limited', null, 'Too much waits'))
    const seen = { begun: [] as string[], done: [] as string[], refused: [] as string[], left: [] as string[] }
    const ends: (() => void)[] = []
    const callers = new Map<string, AbortController>()
    const ask = (call: string) => {
      const caller = new AbortController()
      callers.set(call, caller)
      const work = () => {
        seen.begun.push(call)
        return new Promise<void>((resolve) => ends.push(resolve))
      }
      semaphore.run(call.slice(0, 1), work, caller.signal).then(
        () => seen.done.push(call),
        (error: unknown) => (error === caller.signal.reason ? seen.left : seen.refused).push(call),
      )
    }
    for (const step of steps.split(' ')) {
      if (step === 'end') ends.shift()?.()
      else if (step === 'late') t.mock.timers.tick(limits.wait_ms ?? 0)
      else if (step.startsWith('-')) callers.get(step.slice(1))?.abort()
      else ask(step)
      await setImmediate()
    }
    const all = {
      ...seen,
      begun: seen.begun.join(' '),
      done: seen.done.join(' '),
      refused: seen.refused.join(' '),
      left: seen.left.join(' '),
    }
    assert.deepEqual({ ...all, waiting: semaphore.waiting() }, { begun, done: begun, refused, left, waiting: 0 })
  })
}

test('failed work releases its permit', async () => {
  const semaphore = createFairSemaphore({ at_once: 1 }, () => fail('rate_limited', null, 'Too much waits'))
  const broken = semaphore.run('a', () => Promise.reject(new Error('broken')))
  const next = semaphore.run('a', async () => 'next')
  await assert.rejects(broken, /broken/)
  assert.equal(await next, 'next')
})

test('a caller that has left before its work could begin is not queued', async () => {
  const semaphore = createFairSemaphore({ at_once: 1 }, () => fail('rate_limited', null, 'Too much waits'))
  const { promise, resolve } = Promise.withResolvers<void>()
  const first = semaphore.run('a', () => promise)
  await assert.rejects(
    semaphore.run('b', async () => undefined, AbortSignal.abort()),
    { name: 'AbortError' },
  )
  assert.equal(semaphore.waiting(), 0)
  resolve()
  await first
})

test('a semaphore runs its number of works at once, and the rest in order', async () => {
  const inTurn = createSemaphore(2)
  const begun: number[] = []
  const ends: (() => void)[] = []
  const all = [1, 2, 3, 4].map((n) =>
    inTurn(() => {
      begun.push(n)
      return new Promise<number>((resolve) => ends.push(() => resolve(n)))
    }),
  )
  assert.deepEqual(begun, [1, 2])
  ends[1]?.()
  await setImmediate()
  assert.deepEqual(begun, [1, 2, 3])
  ends[0]?.()
  await setImmediate()
  for (const end of ends) end()
  assert.deepEqual(await Promise.all(all), [1, 2, 3, 4])
})

test('counts are kept by name and in sum, and a disposal counts once', () => {
  const counts = createKeyedCounts()
  const [one, other] = [counts.take('a'), counts.take('a')]
  counts.add('b', 5)
  assert.deepEqual([counts.of('a'), counts.of('b'), counts.of('c'), counts.total()], [2, 5, 0, 7])
  one[Symbol.dispose]()
  one[Symbol.dispose]()
  assert.deepEqual([counts.of('a'), counts.total()], [1, 6])
  other[Symbol.dispose]()
  counts.add('b', -5)
  assert.deepEqual([counts.of('a'), counts.of('b'), counts.total()], [0, 0, 0])
})
