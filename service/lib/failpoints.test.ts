import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { armFailpoint, armFailpoints, failpoint, FailpointError, FAILPOINTS, listFailpoints } from './failpoints.ts'
import { patience } from '../../tests/support/patience.ts'

test('a process that was not started by a test refuses to run with failpoints', () => {
  assert.throws(() => armFailpoints('open.O3:throw', { test_switch: false }), /refusing to start/)
  armFailpoints('', { test_switch: false })
})

test('an unknown failpoint is refused, and failpoints of hostd are ignored', () => {
  for (const spec of ['open.O99:throw', 'open.O3', 'open.O3:explode', 'x']) assert.throws(() => armFailpoints(spec, { test_switch: true }))
  armFailpoints('hostd/checkpoint.save:kill9', { test_switch: true })
})

test('every listed failpoint can be armed', () => {
  const nothing_happens = `@${process.execPath}` // the marker exists already, so the failpoint does nothing
  const every = Object.keys(FAILPOINTS).map((name) => `${name}:throw${nothing_happens}`)
  assert.doesNotThrow(() => armFailpoints(every.join(','), { test_switch: true }))
})

test('an armed failpoint acts, a disarmed one does nothing', async () => {
  const hits: string[] = []
  {
    using _ = armFailpoint('open.O3', (name) => void hits.push(name))
    await failpoint('open.O3')
    await failpoint('open.O4')
  }
  await failpoint('open.O3')
  assert.deepEqual(hits, ['open.O3'])
})

test('the list names every failpoint with its owner', () => {
  assert.equal(listFailpoints().split('\n').length - 1, Object.keys(FAILPOINTS).length)
  assert.match(listFailpoints(), /^suspend\.S8\tcell\tbefore the commit of suspended$/m)
})

/** Runs code with two failpoints in a separate process. */
function run(spec: string): { signal: NodeJS.Signals | null; stdout: string } {
  const code = `
    const { armFailpoints, failpoint } = await import(${JSON.stringify(join(import.meta.dirname, 'failpoints.ts'))})
    armFailpoints(process.argv[1], { test_switch: true })
    await failpoint('open.O3')
    console.log('between')
    try { await failpoint('open.O4') } catch (error) { console.log(error.message) }`
  const { signal, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', code, spec], {
    encoding: 'utf8',
    timeout: patience(120_000),
  })
  return { signal, stdout }
}

test('kill9 ends the process at the failpoint, throw fails the step', () => {
  assert.deepEqual(run('open.O3:kill9'), { signal: 'SIGKILL', stdout: '' })
  assert.deepEqual(run('open.O4:throw'), { signal: null, stdout: `between\n${new FailpointError('open.O4').message}\n` })
})

test('with a marker a failpoint acts once, also across a restart of the process', () => {
  const dir = mkdtempSync('/tmp/berth-failpoint-')
  try {
    const spec = `open.O3:kill9@${dir}/marker`
    assert.equal(run(spec).signal, 'SIGKILL')
    assert.deepEqual(run(spec), { signal: null, stdout: 'between\n' })
  } finally {
    rmSync(dir, { recursive: true })
  }
})
