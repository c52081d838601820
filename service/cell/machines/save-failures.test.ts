import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostFailure, type HostFailureCode } from '../host/hostd.ts'
import { createSaveFailures } from './save-failures.ts'

const failed = (code: HostFailureCode) =>
  new Error('The machine could not be saved', { cause: new HostFailure(code, 'it did not work', { retryable: true }) })

function waits(errors: Error[]): [number, number][] {
  const failures = createSaveFailures({ now: () => new Date(0), monotonic_ms: () => 0 })
  return errors.map((error) => {
    failures.note('w', error)
    const { unused, room } = failures.last('w')?.again_at ?? assert.fail()
    return [unused.getTime() / 1000, room.getTime() / 1000]
  })
}

test('a machine whose memory could not be written is retried after a minute and ever later, for waiting requests after seconds', () => {
  const many = waits(Array.from({ length: 12 }, () => failed('checkpoint_failed')))
  assert.deepEqual([...many.slice(0, 3), many.at(-1)], [[60, 5], [120, 10], [240, 20], [6 * 3600, 60]]) // prettier-ignore
})

for (const [what, error] of [
  ['hostd was away', failed('unreachable')],
  ['the pool was full', failed('no_space')],
  ['the database was away', new Error('terminating connection')],
] as const)
  test(`that ${what} says nothing of the machine: it is tried again after seconds, however often it was so`, () => {
    const many = waits(Array.from({ length: 12 }, () => error))
    assert.deepEqual([many[0], many.at(-1)], [[1, 1], [60, 5]]) // prettier-ignore
  })

test('failures of another kind are counted from zero, and a successful save clears the count', () => {
  assert.deepEqual(waits([failed('unreachable'), failed('checkpoint_failed'), failed('unreachable')]), [[1, 1], [60, 5], [1, 1]]) // prettier-ignore
  const failures = createSaveFailures({ now: () => new Date(0), monotonic_ms: () => 0 })
  failures.note('w', failed('unreachable'))
  failures.forget('w')
  assert.equal(failures.last('w'), null)
})
