import assert from 'node:assert/strict'
import { test } from 'node:test'
import { generatorOf, testSeed } from '../../../tests/support/seed.ts'
import { evictability, victims, type EvictionFacts } from './eviction-rules.ts'

const NOW = new Date('2026-01-01T12:00:00Z')
const ago = (seconds: number) => new Date(NOW.getTime() - seconds * 1000)

const FROZEN: EvictionFacts = {
  id: 'a',
  organization_id: 'one',
  memory_mib: 1024,
  state: 'frozen',
  held: false,
  in_use: false,
  keepalive_until: null,
  hinted_until: null,
  used_at: ago(60),
  busy_at: null,
  moving: false,
  refused: false,
  not_before: null,
  retried_at: null,
}

const JUDGED: [string, Partial<EvictionFacts>, 'now' | 'soon' | 'no'][] = [
  ['frozen for a while', {}, 'now'],
  ['running, and quiet for a second', { state: 'running', busy_at: ago(1) }, 'now'],
  ['running, and not quiet for a second yet', { state: 'running', busy_at: ago(0.9), used_at: ago(3) }, 'soon'],
  ['running, and not looked at yet', { state: 'running' }, 'soon'],
  ['at work though nobody uses it', { state: 'running', busy_at: ago(0.5) }, 'no'],
  ['used a second ago', { used_at: ago(1) }, 'now'],
  ['used less than a second ago', { used_at: ago(0.9) }, 'soon'],
  ['in use', { in_use: true }, 'no'],
  ['held by an operation', { held: true }, 'no'],
  ['kept by a keepalive', { keepalive_until: ago(-1) }, 'no'],
  ['whose keepalive is over', { keepalive_until: ago(0) }, 'now'],
  ['announced by a hint', { hinted_until: ago(-1) }, 'no'],
  ['being moved', { moving: true }, 'no'],
  ['paused', { state: 'paused' }, 'no'],
  ['that could not be woken again', { refused: true }, 'no'],
  ['whose memory could not be written a moment ago', { not_before: ago(-1) }, 'no'],
  ['that did not leave for a reason that passes', { retried_at: ago(-1) }, 'soon'],
  ['the same, though it is at work since', { retried_at: ago(-1), in_use: true }, 'no'],
  ['that may be tried again', { not_before: ago(0) }, 'now'],
]

for (const [what, facts, expected] of JUDGED)
  test(`a machine ${what} may be evicted: ${expected}`, () => {
    assert.equal(evictability({ ...FROZEN, ...facts }, NOW), expected)
  })

const one = (id: string, unused_seconds: number, memory_mib = 1024, organization_id = id): EvictionFacts => ({
  ...FROZEN,
  id,
  used_at: ago(unused_seconds),
  memory_mib,
  organization_id,
})
const CHOSEN: [string, EvictionFacts[], number, string[]][] = [
  ['nobody where nothing is needed', [one('a', 60)], 0, []],
  ['the longest unused', [one('a', 10), one('b', 30), one('c', 20)], 1024, ['b']],
  ['as many as suffice', [one('a', 10), one('b', 30), one('c', 20)], 1025, ['b', 'c']],
  ['all where they do not suffice', [one('a', 10), one('b', 30)], 9000, ['b', 'a']],
  ['one large one in the place of three', [one('a', 30), one('b', 20), one('c', 10, 8192)], 8000, ['c']],
  ['the smaller of two that are alike', [one('a', 10, 2048, 'o'), one('b', 10, 1024, 'o')], 512, ['b']],
  ['one of the organization that has most', [one('a', 30, 1024, 'x'), one('b', 25, 4096, 'y'), one('c', 25, 4096, 'y')], 1024, ['b']],
]

for (const [what, facts, needed_mib, expected] of CHOSEN)
  test(`victims are ${what}`, () => {
    assert.deepEqual(
      victims(facts, needed_mib, NOW).map(({ id }) => id),
      expected,
    )
  })

test('random machines: only evictable ones are chosen, they suffice if all would, and none is superfluous', () => {
  const seed = testSeed()
  const random = generatorOf(seed)
  const pick = <T>(...of: T[]): T => of[Math.floor(random() * of.length)] as T
  for (let round = 0; round < 2000; round += 1) {
    const facts = Array.from({ length: Math.floor(random() * 12) }, (_, index) => ({
      ...one(String(index), random() * 20, pick(512, 1024, 2048, 8192), pick('x', 'y', 'z')),
      state: pick<'frozen' | 'running'>('frozen', 'running'),
      busy_at: pick(null, ago(0), ago(5)),
      in_use: random() < 0.2,
      held: random() < 0.1,
      not_before: pick(null, null, ago(-5)),
    }))
    const needed_mib = Math.floor(random() * 12_000)
    const chosen = victims(facts, needed_mib, NOW)
    const sum = (of: EvictionFacts[]) => of.reduce((all, { memory_mib }) => all + memory_mib, 0)
    const free_to_go = facts.filter((each) => evictability(each, NOW) === 'now')
    const said = `seed ${seed}, round ${round}: ${JSON.stringify({ needed_mib, facts, chosen })}`
    assert.ok(
      chosen.every((each) => free_to_go.includes(each as (typeof facts)[number])),
      said,
    )
    assert.ok(sum(chosen) >= Math.min(needed_mib, sum(free_to_go)), said)
    if (sum(chosen) >= needed_mib) for (const each of chosen) assert.ok(sum(chosen) - each.memory_mib < needed_mib, said)
  }
})
