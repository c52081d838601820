import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ofMemory, unrestorableOn, WAY_OUT } from './doctor-memory.ts'
import type { HostFacts } from './doctor-facts.ts'
import type { StoredFacts } from './doctor-store.ts'

const workspace = (id: string, checkpoint_id: string | null) => ({ id, checkpoint_id }) as StoredFacts['workspaces'][number]
const checkpoint = (checkpoint_id: string, memory_refused?: string) => ({
  checkpoint_id,
  engine: 'first',
  ...(memory_refused === undefined ? {} : { memory_refused }),
})
const machine = (workspace_id: string, engine_refused = false) => ({
  workspace_id,
  subject: { kind: 'workspace' as const, id: workspace_id },
  epoch: 1,
  state: 'running' as const,
  slot: 's',
  engine_refused,
})
const host = (given: Partial<HostFacts>) =>
  ({ engine: 'second', machines: [], files: [], workspaces: [], ...given }) as unknown as HostFacts
const comma = (list: string[]) => list.join(', ')

test('a workspace hibernated on refused memory is named with reason, checkpoint and way out', () => {
  const stored = {
    workspaces: [workspace('a', '1'), workspace('b', '2'), workspace('c', '3'), workspace('d', null), workspace('e', '9')],
  } as StoredFacts
  const checkpoints = [checkpoint('1', 'processor'), checkpoint('2', 'engine_refused'), checkpoint('3'), checkpoint('4', 'processor')]
  const facts = host({
    workspaces: [{ workspace_id: 'a', subject: { kind: 'workspace', id: 'a' }, disks: [], checkpoints, quarantined: [] }],
  })
  const stranded = unrestorableOn(stored, facts)
  assert.deepEqual(stranded, [
    { workspace_id: 'a', checkpoint_id: '1', why: 'processor' },
    { workspace_id: 'b', checkpoint_id: '2', why: 'engine_refused' },
  ])
  assert.deepEqual(ofMemory(stranded, facts, comma), [
    { check: 'memory', level: 'wrong', text: `Not restorable on this computer: a (processor, checkpoint 1). ${WAY_OUT}` },
    { check: 'memory', level: 'notice', text: `Asleep on a refused engine: b (engine_refused, checkpoint 2). ${WAY_OUT}` },
  ])
})

test('machines of a refused engine are named, and a refused current engine blocks all starts', () => {
  const facts = host({ engine: 'first', engine_refused: true, machines: [machine('a', true), machine('b')] })
  assert.deepEqual(
    ofMemory([], facts, comma).map(({ level, text }) => [level, text]),
    [
      ['wrong', 'Nothing can start: engines_refused names first, the engine that machines start with'],
      ['notice', 'Running on a refused engine until they are suspended, which keeps no more than their disks: a'],
    ],
  )
  assert.deepEqual(ofMemory([], host({ machines: [machine('b')] }), comma), [])
})
