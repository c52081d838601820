import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AgentFailure } from './agent-failure.ts'
import { CALL_BYTES, createBufferBudgets, type BufferBudget } from './buffer-budget.ts'

const MIB = 1 << 20

function takeAll(room: BufferBudget): number {
  for (let taken = 0; ; taken += MIB) {
    try {
      room.take(MIB)
    } catch {
      return taken
    }
  }
}

test('organizations at their maximum leave a part for the next, and a workspace leaves some for its siblings', () => {
  const rooms = createBufferBudgets(96 * MIB)
  const of = (id: string, organization_id: string) => {
    const room = rooms.open({ id, organization_id }, 0)
    assert.ok(room)
    return takeAll(room) / MIB
  }
  assert.deepEqual([of('a1', 'a'), of('a2', 'a'), of('b1', 'b'), of('b2', 'b'), of('c1', 'c'), of('d1', 'd')], [31, 16, 16, 8, 8, 5])
})

test('a disposed call releases its budget once, and acquires nothing after it', () => {
  const rooms = createBufferBudgets()
  const room = rooms.open({ id: 'a', organization_id: 'o' }, 1000)
  room?.take(MIB)
  assert.equal(rooms.taken_bytes(), MIB + 1000 + CALL_BYTES)
  room?.[Symbol.dispose]()
  room?.[Symbol.dispose]()
  assert.throws(() => room?.take(1), AgentFailure)
  assert.equal(rooms.taken_bytes(), 0)
})

test('the event loop turns between two large answers', async () => {
  const rooms = createBufferBudgets()
  const room = rooms.open({ id: 'a', organization_id: 'o' }, 0)
  const other = rooms.open({ id: 'b', organization_id: 'p' }, 0)
  let rounds = 0
  const goRound = () => {
    rounds += 1
    going = setImmediate(goRound)
  }
  let going = setImmediate(goRound)
  assert.ok(room && other)
  const seen = await Promise.all([room, other, room].map((each) => each.nextTick().then(() => rounds)))
  clearImmediate(going)
  const [first = 0, second = 0, third = 0] = seen
  assert.ok(first < second && second < third, seen.join(' '))
})
