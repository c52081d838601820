import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { BOUNDED_FILES, fileBoundMs, runBoundMs } from './bounds.ts'
import { chosenFrom, isOnMachines, partOf } from './files.ts'
import { filesToRepeat, flakyLine, judged } from './flakes.ts'
import { totalsOf, type Outcome } from './outcomes.ts'
import { closingLines, failuresText, slowestText } from './print.ts'
import type { FileReport } from './run-file.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')

const outcome = (name: string, end: Outcome['end'], rest: Partial<Outcome> = {}): Outcome => ({
  name,
  end,
  within: [],
  suite: false,
  ms: 1,
  note: '',
  ...rest,
})
const report = (file: string, ...outcomes: Outcome[]): FileReport => ({
  file,
  ms: 1000,
  outcomes,
  failed: outcomes.some(({ end }) => end !== 'passed' && end !== 'skipped'),
  output: '',
  said: [],
  folder: `/logs/${file}`,
})
const failing = (file: string) =>
  report(file, outcome('it holds', 'failed', { note: 'Error: it\n  does not\n    at here.ts:1\n    at there.ts:2' }))
const passing = (file: string) => report(file, outcome('it holds', 'passed'))

test('totals count as node:test does: suites separately, parents of failures as failures', () => {
  const outcomes = [
    outcome('suite', 'follows', { suite: true }),
    outcome('a', 'passed'),
    outcome('b', 'failed'),
    outcome('parent', 'follows'),
    outcome('c', 'cancelled'),
    outcome('d', 'skipped'),
    outcome('e', 'todo'),
  ]
  assert.deepEqual(totalsOf(outcomes), { tests: 6, suites: 1, pass: 1, fail: 2, cancelled: 1, skipped: 1, todo: 1 })
})

test('the closing lines are those of node:test', () => {
  assert.equal(
    closingLines([passing('a'), passing('b')], 12.5),
    'ℹ tests 2\nℹ suites 0\nℹ pass 2\nℹ fail 0\nℹ cancelled 0\nℹ skipped 0\nℹ todo 0\nℹ duration_ms 12.500\n',
  )
})

test('a file that failed is repeated, when few files failed', () => {
  const machines = failing('tests/acceptance/exec.test.ts')
  const unit = failing('tests/api/app.test.ts')
  const go = failing('tools/checks/go-machines.test.mjs')
  assert.deepEqual(filesToRepeat([machines, unit, go, passing('tests/engine/hostd.test.ts')]), [machines.file, unit.file, go.file])
  assert.deepEqual(filesToRepeat([1, 2, 3].map((each) => failing(`tests/acceptance/${each}.test.ts`))).length, 3)
  assert.deepEqual(filesToRepeat([1, 2, 3, 4].map((each) => failing(`tests/acceptance/${each}.test.ts`))), [])
  assert.deepEqual(filesToRepeat([machines, ...[1, 2, 3].map((each) => failing(`tests/api/${each}.test.ts`))]), [])
})

test('a repeat that passes makes the run green and is reported as FLAKY with the first error', () => {
  const file = 'tests/acceptance/exec.test.ts'
  const { reports, flaky } = judged([passing('a'), failing(file)], [passing(file)])
  assert.deepEqual(
    reports.map(({ failed }) => failed),
    [false, false],
  )
  assert.match(closingLines(reports, 1), /ℹ pass 2\nℹ fail 0/)
  assert.deepEqual(flaky.map(flakyLine), [`FLAKY ${file}: it holds: Error: it does not`])
})

test('a repeat that fails keeps the failure', () => {
  const file = 'tests/acceptance/exec.test.ts'
  const { reports, flaky } = judged([failing(file)], [failing(file)])
  assert.deepEqual([reports.map(({ failed }) => failed), flaky], [[true], []])
})

test('failures are reported with their error and the path of their logs', () => {
  assert.equal(failuresText([passing('a')]), '')
  assert.match(
    failuresText([passing('a'), failing('b')]),
    /failing tests of 1 file:\n\nb \(logs: \/logs\/b\)\n {2}✖ it holds\n {4}Error: it/,
  )
})

test('the slowest list has twenty files, the slowest first', () => {
  const reports = Array.from({ length: 30 }, (_, at) => ({ ...passing(`file-${at}`), ms: at * 1000 }))
  const lines = slowestText(reports).trim().split('\n')
  assert.deepEqual([lines.length, lines[1], lines[20]], [21, '    29.0 s  file-29', '    10.0 s  file-10'])
})

test('words select parts and paths, and parts run in their order', () => {
  const files = [
    'tests/ledger/ledger.test.ts',
    'tests/acceptance/exec.test.ts',
    'tools/checks/go.test.mjs',
    'tests/gateway/exec.test.ts',
    'tests/tidy/tidy.test.ts',
  ]
  assert.deepEqual(chosenFrom(files, []).map(partOf), ['lint', 'unit', 'go', 'acceptance', 'ledger'])
  assert.deepEqual(chosenFrom(files, ['exec']), ['tests/gateway/exec.test.ts', 'tests/acceptance/exec.test.ts'])
  assert.deepEqual(chosenFrom(files, ['exec', 'acceptance']), ['tests/acceptance/exec.test.ts'])
  assert.deepEqual(files.filter(isOnMachines), ['tests/acceptance/exec.test.ts'])
})

test('every special bound belongs to an existing file and exceeds the usual one', () => {
  for (const file of BOUNDED_FILES) {
    assert.ok(existsSync(path.join(ROOT, file)), file)
    assert.ok(fileBoundMs(file) > fileBoundMs('any'), file)
  }
})

test('the bound of a run is a number of minutes', () => {
  assert.equal(runBoundMs('2'), 120_000)
  for (const wrong of ['', 'soon', '0', '-1']) assert.throws(() => runBoundMs(wrong), /is not|not a number/, wrong)
})
