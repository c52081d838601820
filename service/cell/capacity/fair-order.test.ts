import assert from 'node:assert/strict'
import { test } from 'node:test'
import { generatorOf, testSeed } from '../../../tests/support/seed.ts'
import { afterGrant, fairOrder, NO_SHARES, type QueuedRequest } from './fair-order.ts'

const at = (seconds: number) => new Date(seconds * 1000)
let count = 0
const waiter = (organization_id: string, seconds: number, more: Partial<QueuedRequest> = {}): QueuedRequest => ({
  id: `${organization_id}${seconds}-${(count += 1)}`,
  organization_id,
  memory_mib: 1024,
  disk_gib: 1,
  since: at(seconds),
  is_call: false,
  ...more,
})
const named = (of: QueuedRequest[]) => of.map(({ organization_id, since }) => `${organization_id}${since.getTime() / 1000}`)

test('one organization is served in the order of its requests, calls first', () => {
  const waiting = [waiter('a', 3), waiter('a', 1), waiter('a', 2), waiter('a', 9, { is_call: true })]
  assert.deepEqual(named(fairOrder(waiting, NO_SHARES)), ['a9', 'a1', 'a2', 'a3'])
})

test('a single request of another organization follows the first of two hundred', () => {
  const waiting = [...Array.from({ length: 200 }, (_, index) => waiter('a', index)), waiter('b', 1000)]
  assert.deepEqual(named(fairOrder(waiting, NO_SHARES)).slice(0, 3), ['a0', 'b1000', 'a1'])
})

test('a new organization waits for at most one request of an organization that was served many times', () => {
  let turns = NO_SHARES
  for (let index = 0; index < 50; index += 1) turns = afterGrant(turns, waiter('a', index))
  const waiting = [waiter('a', 50), waiter('a', 51), waiter('b', 1000)]
  assert.deepEqual(named(fairOrder(waiting, turns)), ['b1000', 'a50', 'a51'])
})

test('shares count memory: an organization with machines eight times as large gets an eighth as many', () => {
  const waiting = [
    ...Array.from({ length: 4 }, (_, index) => waiter('a', index, { memory_mib: 8192 })),
    ...Array.from({ length: 20 }, (_, index) => waiter('b', 100 + index)),
  ]
  const order = named(fairOrder(waiting, NO_SHARES))
  assert.deepEqual(
    order.flatMap((name, index) => (name.startsWith('a') ? [index] : [])),
    [0, 9, 18, 23],
  )
})

test('no waiting organization falls behind another by more than one machine of each', () => {
  const seed = testSeed()
  const random = generatorOf(seed)
  for (let round = 0; round < 200; round += 1) {
    let turns = NO_SHARES
    let waiting = Array.from({ length: 60 }, (_, index) =>
      waiter('abc'[index % 3] ?? 'a', Math.floor(random() * 100), { memory_mib: 512 * (1 + Math.floor(random() * 8)) }),
    )
    const had = new Map(['a', 'b', 'c'].map((name) => [name, 0]))
    while (new Set(waiting.map(({ organization_id }) => organization_id)).size === 3) {
      const [first] = fairOrder(waiting, turns)
      assert.ok(first)
      turns = afterGrant(turns, first)
      waiting = waiting.filter(({ id }) => id !== first.id)
      had.set(first.organization_id, (had.get(first.organization_id) ?? 0) + first.memory_mib)
      const shares = [...had.values()]
      assert.ok(Math.max(...shares) - Math.min(...shares) <= 4096, `seed ${seed}, round ${round}: ${JSON.stringify([...had])}`)
    }
  }
})
