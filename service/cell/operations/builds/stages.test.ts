import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ALLOW_ALL, DENY_ALL } from '../../../../contract/egress/policy.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { planSteps } from '../../../core/templates/recipes/plan.ts'
import type { BuildPlan } from '../../../core/templates/build-plan.ts'
import { stagesOf } from './stages.ts'

const resources = { cpu_millis: 1000, memory_mib: 512, disk_gib: 2 }
const settings = { env: {}, inputs: {}, defaults: resources, ceiling: resources }

function plan(commands: string[], more: Partial<BuildPlan> = {}): BuildPlan {
  const steps = planSteps({ steps: commands.map((run) => (run === 'copy' ? { copy: ['.'], to: '/srv' } : { run })) }, {})
  return { layers: ['a'.repeat(64)], resources, egress: ALLOW_ALL, steps, upload: null, settings, ceiling: null, ...more }
}

const keys = (of: BuildPlan) => stagesOf(of).map(({ key }) => key)
const upload = (digest: string) => ({ upload: { id: '01920000-0000-7000-8000-000000000000', sha256: digest, parts: [] } })

test('a changed last step keeps the layers of all steps before it', () => {
  const [before, after] = [keys(plan(['a', 'b', 'c'])), keys(plan(['a', 'b', 'd']))]
  assert.deepEqual([before.length, after.slice(0, 2)], [3, before.slice(0, 2)])
  assert.notEqual(after[2], before[2])
})

test('a changed first step, another base and another policy change all layers', () => {
  const before = keys(plan(['a', 'b']))
  for (const other of [plan(['x', 'b']), plan(['a', 'b'], { layers: ['b'.repeat(64)] }), plan(['a', 'b'], { egress: DENY_ALL })]) {
    assert.deepEqual(
      keys(other).filter((key) => before.includes(key)),
      [],
    )
  }
})

test('another upload changes the layers from the first copy on, and none before it', () => {
  const [one, two] = [keys(plan(['a', 'copy', 'b'], upload('1'))), keys(plan(['a', 'copy', 'b'], upload('2')))]
  assert.deepEqual(
    one.map((key, at) => key === two[at]),
    [true, false, false],
  )
})

test('an uploaded base is identified by its bytes: other bytes change all layers, another machine to unpack it none', () => {
  const uploaded = (sha256: string, layer = 'c'.repeat(64)) =>
    plan(['a', 'b'], { layers: [], base_upload: { id: '01920000-0000-7000-8000-000000000000', sha256, parts: [], layers: [layer] } })
  assert.deepEqual(keys(uploaded('1')), keys(uploaded('1', 'd'.repeat(64))))
  assert.deepEqual(
    keys(uploaded('2')).filter((key) => keys(uploaded('1')).includes(key)),
    [],
  )
})

test('a version has a maximum of layers: the last steps make one together', () => {
  const many = Array.from({ length: LIMITS.build.steps_max }, (_, at) => `step ${at}`)
  const stages = stagesOf(plan(many))
  assert.equal(stages.length + 1, LIMITS.build.layers_max)
  assert.deepEqual(
    [stages.at(-1)?.first, stages.at(-1)?.steps.length],
    [LIMITS.build.layers_max - 2, many.length - (LIMITS.build.layers_max - 2)],
  )
  assert.deepEqual(keys(plan([...many, 'more'])).slice(0, -1), keys(plan(many)).slice(0, -1))
})
