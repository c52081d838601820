import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nearest } from './nearest.ts'

const KNOWN = ['limit', 'cursor', 'state', 'include_deleted', 'key_prefix']

test('the nearest name is found, and none if nothing is near', () => {
  const found = (wrong: string) => nearest(wrong, KNOWN)
  assert.deepEqual(['include_delete', 'includeDeleted', 'limt', 'LIMIT', 'stat', 'sttae', 'keyprefix'].map(found), [
    'include_deleted',
    'include_deleted',
    'limit',
    'limit',
    'state',
    'state',
    'key_prefix',
  ])
  assert.deepEqual(['nonsense', 'x', '', '__proto__', 'a'.repeat(100_000)].map(found), Array(5).fill(undefined))
  assert.equal(nearest('limit', []), undefined)
  // A field of a response and the filter of that field may differ by a prefix.
  const filters = ['state', 'desired_state', 'key_prefix']
  assert.deepEqual(
    ['observed_state', 'desird_state', 'the_state'].map((wrong) => nearest(wrong, filters)),
    ['state', 'desired_state', 'state'],
  )
})
