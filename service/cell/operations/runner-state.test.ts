import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inFairShares, mayBegin, newState, type Group, type State } from './runner-state.ts'

const FOREVER = new Promise<void>(() => undefined)

function begin(state: State, group: Group, organization_id: string): boolean {
  if (!mayBegin({}, state, { group, organization_id })) return false
  state.jobs.set(`${state.jobs.size}`, { group, organization_id, done: FOREVER, moved: FOREVER })
  return true
}

for (const [group, places] of [
  ['start', 8],
  ['suspend', 4],
  ['delete', 8],
  ['volume', 4],
  ['build', 3],
] as const) {
  test(`the last place of ${group} is for an organization that has none`, () => {
    const state = newState()
    const begun = [...Array<string>(places).fill('a'), 'b', 'b', 'c'].filter((organization_id) => begin(state, group, organization_id))
    assert.equal(begun.join(''), `${'a'.repeat(places - 1)}b`)
    assert.ok(begin(state, 'startup', 'a'))
  })
}

test('waiting operations alternate by organization, and an organization with fewer permits comes first', () => {
  const state = newState()
  for (const organization_id of 'aaab') begin(state, 'suspend', organization_id)
  const waiting = ['a1', 'a2', 'b1', 'b2', 'c1', 'c2', '?']
  const placeOf = (name: string) => (name === '?' ? undefined : { group: 'suspend' as const, organization_id: name.charAt(0) })
  assert.deepEqual(inFairShares(state, waiting, placeOf), ['c1', '?', 'b1', 'c2', 'b2', 'a1', 'a2'])
})
