import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import {
  budgetOf,
  budgetProblems,
  judgedBudget,
  kindsOver,
  noteSeconds,
  predictedMs,
  readBudget,
  readRecord,
  ROWS_MINUTES_MAX,
} from './budget.ts'
import { allFiles, LEDGER } from './files.ts'
import type { FileReport } from './run-file.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const QUIET = { taken: 0.02, speed: 1 }
const UNIT = 'tests/api/app.test.ts'
const report = (file: string, seconds: number, failed = false): FileReport => ({
  ...{ file, ms: seconds * 1000, failed, outcomes: [], output: '', said: [], folder: '' },
})

test('every file has a row with its seconds, every row a file, and a run by its rows stays within its bound', async () => {
  const [budget, files] = [readBudget(), await allFiles(ROOT)]
  // The budget is empty before the first `npm run test:budget`.
  const missing = Object.keys(budget).length === 0 ? [] : files.filter((file) => budget[file] === undefined)
  assert.deepEqual(missing, [], 'npm test -- FILE prints the row to write in tests/runner/budget.json')
  assert.deepEqual(
    Object.keys(budget).filter((file) => !files.includes(file)),
    [],
    'these rows have no file any more',
  )
  const minutes = predictedMs(budget, 2) / 60_000
  assert.ok(
    minutes <= ROWS_MINUTES_MAX,
    `by their rows a run takes ${minutes.toFixed(1)} minutes: make files cheaper, or move what says little`,
  )
})

test('a file may take half more than its row, and a few seconds', () => {
  const problems = (seconds: number) => budgetProblems([report(UNIT, seconds)], { [UNIT]: 20 }, QUIET)
  assert.deepEqual(problems(33), [])
  assert.match(problems(34)[0] ?? '', /app\.test\.ts took 34 s, and its row .* says 20/)
})

test('a kind of files over its rows by half fails the run, and a single late file does not', () => {
  const files = Array.from({ length: 20 }, (_, at) => `tests/api/f${at}.test.ts`)
  const budget = Object.fromEntries(files.map((file) => [file, 20]))
  const reports = (first: number, others: number) => files.map((file, at) => report(file, at === 0 ? first : others))
  assert.deepEqual(kindsOver(reports(60, 20), budget, QUIET), [])
  assert.equal(judgedBudget(reports(60, 20), QUIET, budget).failed, false)
  assert.match(judgedBudget(reports(60, 20), QUIET, budget).text, /f0\.test\.ts took 60 s/)
  assert.match(kindsOver(reports(34, 34), budget, QUIET)[0] ?? '', /computes took 680 s, and their rows say 400/)
  assert.equal(judgedBudget(reports(34, 34), QUIET, budget).failed, true)
})

test('a file without a row gets the row to write, and a failed file is not judged', () => {
  assert.match(budgetProblems([report('a', 6.2)], { b: 1 }, QUIET)[0] ?? '', /Write: "a": 7$/)
  assert.deepEqual(budgetProblems([report('a', 600, true)], { b: 1 }, QUIET), [])
})

test('a slow computer gets proportionally more time, and next to other work nothing is judged', () => {
  assert.deepEqual(budgetProblems([report(UNIT, 60)], { [UNIT]: 20 }, { taken: 0, speed: 0.5 }), [])
  const busy = judgedBudget([report(UNIT, 60)], { taken: 0.4, speed: 1 }, { [UNIT]: 20 })
  assert.equal(busy.failed, false)
  assert.match(busy.text, /Not judged, since other work took 40 %/)
  const quiet = judgedBudget([report(UNIT, 60)], QUIET, { [UNIT]: 20 })
  assert.equal(quiet.failed, true)
  assert.match(
    quiet.text,
    /1\.0 min of {2}0\.3 min {2}computes \(1\)[\s\S]*Over their budget:\n {2}files of the kind computes [^\n]*\n {2}tests\/api\/app/,
  )
})

test('the time of a run is that of its longest lane, then the exclusive files, then the ledger', () => {
  const budget = {
    ...{ 'tests/acceptance/a.test.ts': 100, 'tests/acceptance/b.test.ts': 20, 'tests/acceptance/idle.test.ts': 30 },
    ...{ [UNIT]: 40, 'tests/acceptance/deaths.test.ts': 7, [LEDGER]: 3 },
  }
  // One lane has `a`. The other lane has the unit and then `b`.
  assert.equal(predictedMs(budget, 2), 110_000)
  assert.equal(predictedMs(budget, 1), 200_000)
})

test('the seconds of runs on a quiet computer become rows, and an unmeasured file is named', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-seconds-'))
  try {
    const file = path.join(folder, 'cache', 'seconds.json')
    noteSeconds([report('a', 2.1), report('b', 5), report('c', 9, true)], QUIET, file)
    noteSeconds([report('b', 50)], { taken: 0.5, speed: 1 }, file)
    noteSeconds([report('a', 8)], { taken: 0, speed: 0.5 }, file)
    assert.deepEqual(readRecord(file), { a: 4, b: 5 })
    assert.deepEqual(budgetOf(['b', 'a'], readRecord(file)), { a: 4, b: 5 })
    assert.throws(() => budgetOf(['a', 'c'], readRecord(file)), /\nc$/)
  } finally {
    rmSync(folder, { recursive: true })
  }
})
