import assert from 'node:assert/strict'
import { existsSync, globSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { CLONE } from '../setup/packages.mjs'
import { MODES } from '../../tests/chaos/points.ts'
import { listOf, nextPart, openGreens } from './greens.mjs'
import { FAILPOINT_MODES, longParts, SUITE_PART_VARIABLE } from './parts.mjs'
import { chosenParts, runParts, tableOf } from './plan.mjs'
import { beginProgress, endProgress, notePassed, passedFiles, progressFile, seedOfProgress } from './progress.mjs'
import { LEDGER, SUITE_PARTS, suitePartOf } from './suite.mjs'

const part = (name, script) => ({ name, adds: '', command: ['--eval', script], env: {} })
const run = (parts, signal = new AbortController().signal, more = {}) =>
  runParts(parts, { cwd: CLONE, log: () => undefined, signal, minutes: 1, ...more })

test('words choose parts of the long run, and an unknown word is refused with the list of parts', () => {
  const parts = longParts(7)
  assert.deepEqual(chosenParts(parts, []), parts)
  assert.deepEqual(
    chosenParts(parts, ['chaos', 'race']).map(({ name }) => name),
    ['race-plain', 'race-hostd', 'race-machines', 'chaos'],
  )
  assert.throws(() => chosenParts(parts, ['rice']), /rice is no part.*race-plain/)
})

test('every part runs an existing program, and all parts share one seed', () => {
  for (const { command, env } of longParts(7)) {
    assert.ok(existsSync(join(CLONE, command[0])), command[0])
    assert.deepEqual([env.BERTH_TEST_LONG, env.BERTH_TEST_SEED], ['1', '7'])
  }
})

test('a part that fails does not keep the next one from running', async () => {
  const results = await run([part('a', 'process.exit(3)'), part('b', ''), part('c', 'process.kill(process.pid, "SIGKILL")')])
  assert.deepEqual(
    results.map(({ name, ended_as }) => [name, ended_as]),
    [
      ['a', 3],
      ['b', 0],
      ['c', 'SIGKILL'],
    ],
  )
  assert.match(tableOf(results), /^a +0\.0 min {2}FAILED \(3\)\nb +0\.0 min {2}passed\nc +0\.0 min {2}FAILED \(SIGKILL\)\n$/)
})

test('after an interruption no further part starts, and the table says so', async () => {
  const end = new AbortController()
  end.abort()
  assert.match(tableOf(await run([part('a', 'process.exit(3)')], end.signal)), /^a +0\.0 min {2}NOT RUN\n$/)
})

test('every test file belongs to one part of the suite, every part has a file, and every mode of a failpoint has its part', () => {
  const files = globSync('**/*.test.{ts,mjs}', { cwd: CLONE, exclude: ['**/node_modules', '.git', 'examples'] })
  const parts = Map.groupBy(files, suitePartOf)
  assert.deepEqual(parts.get(undefined), [LEDGER])
  const runs = longParts(1)
    .map(({ env }) => env[SUITE_PART_VARIABLE])
    .filter((name) => name !== undefined)
  assert.deepEqual(new Set([...runs, undefined]), new Set(parts.keys()))
  assert.equal(runs.length, SUITE_PARTS.length)
  assert.deepEqual(FAILPOINT_MODES, [...MODES])
  const names = longParts(1).map(({ name }) => name)
  assert.equal(new Set(names).size, names.length)
})

test('a part that takes too long is ended, and the table says so', async () => {
  const results = await run([part('a', 'setTimeout(() => {}, 1e6)')], undefined, { minutes: 0.005 })
  assert.match(tableOf(results), /^a .*FAILED \(too long\)\n$/)
})

test('the next part is the one whose last green run is oldest; a part that failed keeps its date', async () => {
  const cache_dir = mkdtempSync(join(tmpdir(), 'berth-greens-'))
  try {
    const greens = openGreens(cache_dir)
    const parts = [part('a', ''), part('b', ''), part('c', 'process.exit(1)')]
    const ended = ({ name, ended_as }) => {
      if (ended_as === 0) greens.note(name, { at: new Date().toISOString(), commit: 'abc', minutes: 2, seed: 7 })
    }
    assert.equal(nextPart(parts, greens.read()).name, 'a')
    await run(parts, undefined, { ended })
    assert.equal(nextPart(parts, greens.read()).name, 'c')
    greens.note('c', { at: new Date(Date.now() + 1000).toISOString(), commit: 'abc', minutes: 2, seed: 7 })
    assert.equal(nextPart(parts, greens.read()).name, 'a')
    assert.match(listOf(parts, { b: greens.read().b }), /^a  never .*\nb  \d{4}-.*Z abc 2 min, seed 7 .*\nc  never/)
  } finally {
    rmSync(cache_dir, { recursive: true })
  }
})

test('an interrupted part continues with its seed at the same commit, and starts over at another', () => {
  const cache_dir = mkdtempSync(join(tmpdir(), 'berth-progress-'))
  try {
    const file = progressFile(cache_dir, 'a')
    assert.deepEqual([seedOfProgress(file, 'abc'), passedFiles(file)], [undefined, []])
    beginProgress(file, 'abc', 7)
    notePassed(file, 'tests/x.test.ts')
    beginProgress(file, 'abc', 7)
    assert.deepEqual([seedOfProgress(file, 'abc'), passedFiles(file)], [7, ['tests/x.test.ts']])
    beginProgress(file, 'abc', 8)
    assert.deepEqual(passedFiles(file), [])
    notePassed(file, 'tests/x.test.ts')
    assert.equal(seedOfProgress(file, 'def'), undefined)
    beginProgress(file, 'def+', 8)
    assert.deepEqual([seedOfProgress(file, 'def+'), passedFiles(file)], [undefined, []])
    endProgress(file)
    assert.equal(seedOfProgress(file, 'def'), undefined)
  } finally {
    rmSync(cache_dir, { recursive: true })
  }
})
