import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CellCode } from '../../contract/errors.ts'
import { fail } from './fail.ts'

test('a reason of another code is a type error; a code known only at run time takes any reason', () => {
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

test('details have the types that code and reason declare, and required details are required', () => {
  const mode = 'processful' as string
  const failures = [
    fail('conflict', 'key_in_use', 'The key is in use', { details: { key: 'a' } }),
    fail('forbidden', null, 'No', { details: { tool: 'exec' } }), // details of the cell
    fail('forbidden', null, 'No', { details: { denied_tools: ['exec'] } }), // details of the app
    fail(JSON.parse('"conflict"') as CellCode, null, 'No', { details: { of_an_agent: 1 } }),
    // @ts-expect-error -- of another type
    fail('conflict', 'key_in_use', 'The key is in use', { details: { key: 1 } }),
    // @ts-expect-error -- not one of the words
    fail('conflict', 'mode_mismatch', 'No', { details: { mode, requested_mode: 'file_first' } }),
    // @ts-expect-error -- of another reason
    fail('conflict', 'already_running', 'No', { details: { key: 'a' } }),
    // @ts-expect-error -- one of those that have to be there is missing
    fail('quota_exceeded', null, 'No', { details: { limit: 'concurrent_workspaces', limit_value: 1 } }),
    // @ts-expect-error -- all of them are missing
    fail('conflict', 'key_in_use', 'The key is in use'),
    // @ts-expect-error -- a code that declares none
    fail('stale_epoch', null, 'Old', { details: { epoch: 1 } }),
  ]
  const details = failures.map(({ options }) => options.details && Object.keys(options.details).join())
  assert.deepEqual(details, [
    'key',
    'tool',
    'denied_tools',
    'of_an_agent',
    'key',
    'mode,requested_mode',
    'key',
    'limit,limit_value',
    undefined,
    'epoch',
  ])
})
