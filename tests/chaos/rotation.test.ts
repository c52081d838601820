import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FAILPOINTS } from '../../service/lib/failpoints.ts'
import { isLong } from '../support/depth.ts'
import { havingTheirTurn, rotation } from './rotation.ts'

const kinds = Map.groupBy(Object.keys(FAILPOINTS), (name) => name.slice(0, name.indexOf('.')))

test('each run has at least one point of every kind and an eighth of all, and eight runs cover all points', (t) => {
  t.diagnostic(`BERTH_TEST_ROTATION=${rotation}`)
  assert.ok(Number.isSafeInteger(rotation))
  for (const [kind, points] of kinds) {
    const turns = Array.from({ length: 8 }, (_, at) => havingTheirTurn(points, rotation + at))
    for (const turn of turns) assert.ok(turn.length >= 1 && turn.length >= points.length / 8, `${kind}: ${turn.join()}`)
    assert.deepEqual(new Set(turns.flat()), new Set(points), kind)
  }
})

test('the long run has every point in each rotation, the short one does not', () => {
  for (const points of kinds.values()) {
    const all = havingTheirTurn(points).length === points.length
    assert.equal(all, isLong || points.length === 1)
  }
})
