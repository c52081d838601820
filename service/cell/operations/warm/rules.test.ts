import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AGENT_PROTOCOLS } from '../../../../contract/internal/agent.ts'
import { fitOf, whyCold, type Capture, type WarmCandidate } from './rules.ts'

const SIZE = { cpu_millis: 1000, memory_mib: 512, disk_gib: 4 }
const NEW: WarmCandidate = {
  ownership_epoch: 0,
  purpose: 'standard',
  disk_layout: 'layered',
  ceilings: SIZE,
  volumes: [],
  inputs: { CITY: 'Bonn' },
  secrets: [],
  settings: {
    inputs: { CITY: { default: 'Bonn' }, KEY: { kind: 'secret' }, LATER: { startup: false }, TOKEN: { kind: 'secret', startup: false } },
  },
}
const READY: Capture = {
  id: 'c',
  state: 'ready',
  checkpoint_id: 'k',
  engine: 'this',
  agent_protocol: AGENT_PROTOCOLS.current,
  resources: SIZE,
}

test('a new workspace that gives nothing which its start-up may need can be a machine that was started ahead', () => {
  assert.equal(whyCold(NEW), null)
  assert.equal(whyCold({ ...NEW, inputs: { CITY: 'Bonn', LATER: 'given' }, secrets: ['TOKEN'] }), null)
})

for (const [why, changed] of [
  ['not_new', { ownership_epoch: 1 }],
  ['purpose', { purpose: 'template_test' }],
  ['disk_layout', { disk_layout: 'legacy' }],
  ['volumes', { volumes: [{}] }],
  ['inputs', { inputs: { CITY: 'Rome' } }],
  ['inputs', { inputs: {} }],
  ['secrets', { secrets: ['KEY'] }],
  ['secrets', { secrets: ['UNDECLARED'] }],
] as [string, Partial<WarmCandidate>][]) {
  test(`${JSON.stringify(changed)} starts cold: ${why}`, () => assert.equal(whyCold({ ...NEW, ...changed }), why))
}

test('a capture fits workspaces with at least its memory and disk, under the current engine and agent alone', () => {
  const fit = (capture: Capture | null, ceilings = SIZE) => fitOf(capture, { ceilings }, 'this')
  assert.equal(fit(READY), 'fits')
  assert.equal(fit(READY, { ...SIZE, memory_mib: 1024 }), 'fits')
  assert.equal(fit(READY, { ...SIZE, memory_mib: 511 }), 'smaller')
  assert.equal(fit(READY, { ...SIZE, disk_gib: 3 }), 'smaller')
  assert.equal(fit({ ...READY, engine: 'older' }), 'stale')
  assert.equal(fit({ ...READY, agent_protocol: AGENT_PROTOCOLS.current - 1 }), 'stale')
  assert.equal(fit({ ...READY, state: 'wanted', checkpoint_id: null }), 'missing')
  assert.equal(fit(null), 'missing')
})
