import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CellCode } from '../../contract/errors.ts'
import { fail } from './fail.ts'

test('a reason that its code does not have is an error of the types; a code of run time brings its reason', () => {
  const told: CellCode = JSON.parse('"conflict"')
  const failures = [
    fail('conflict', 'already_running', 'The workspace is running already'),
    fail(told, 'of_an_agent', 'No'),
    fail('rate_limited', null, 'Too many requests'),
    // @ts-expect-error -- no reason of any surface
    fail('conflict', 'alredy_running', 'The workspace is running already'),
    // @ts-expect-error -- a reason of another code
    fail('not_found', 'already_running', 'There is no such workspace'),
    // @ts-expect-error -- a code that has no reasons
    fail('stale_epoch', 'old', 'The token is of an old epoch'),
  ]
  const reasons = failures.map(({ reason }) => reason)
  assert.deepEqual(reasons, ['already_running', 'of_an_agent', undefined, 'alredy_running', 'already_running', 'old'])
})
