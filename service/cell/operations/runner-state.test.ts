import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mayBuild, newState } from './runner-state.ts'

test('an organization builds in as many places as it leaves to others', () => {
  const state = newState()
  const begun: string[] = []
  for (const owner_id of ['a', 'a', 'a', 'b', 'b']) {
    if (!mayBuild({}, state, owner_id)) continue
    const forever = new Promise<void>(() => undefined)
    state.jobs.set(`${begun.push(owner_id)}`, { group: 'build', owner_id, done: forever, moved: forever })
  }
  assert.deepEqual(begun, ['a', 'a', 'b'])
})
