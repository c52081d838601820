import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { allFiles, LEDGER } from './files.ts'
import { inOrder, kindOf, lanesFor, NAMED_FILES, takeFor, type Lane } from './lanes.ts'
import type { FileReport } from './run-file.ts'
import type { Outcome } from './outcomes.ts'
import { ALLOWED_SKIPS, withoutSkips } from './skips.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const UNIT = 'tests/api/app.test.ts'
const MACHINES = 'tests/acceptance/exec.test.ts'
const WAITS = 'tests/acceptance/residency.test.ts'
const ALONE = 'tests/acceptance/deaths.test.ts'

function takenBy(lane: Lane, files: readonly string[]): string[] {
  const waiting = [...files]
  const taken: string[] = []
  for (let file = takeFor(lane, waiting); file !== undefined; file = takeFor(lane, waiting)) taken.push(file)
  return taken
}

test('a lane takes files of its own kind first, and helps another lane when it has none left', () => {
  const files = [UNIT, MACHINES, WAITS, ALONE, LEDGER]
  const [machines, computing, waiting] = lanesFor(2, false).map((lane) => takenBy(lane, files))
  assert.deepEqual(machines, [MACHINES, UNIT])
  assert.deepEqual(computing, [UNIT, MACHINES])
  assert.deepEqual(waiting, [WAITS, UNIT, MACHINES])
})

test('no lane runs exclusive files or the ledger', () => {
  for (const lanes of [lanesFor(1, false), lanesFor(2, false), lanesFor(8, false), lanesFor(8, true)])
    for (const lane of lanes) assert.deepEqual(takenBy(lane, [ALONE, LEDGER]), [])
})

test('every file of the suite runs in a lane or after the lanes', async () => {
  for (const file of await allFiles(ROOT)) {
    const kind = kindOf(file)
    for (const lanes of [lanesFor(1, false), lanesFor(2, false)])
      assert.ok(['alone', 'last'].includes(kind) || lanes.some(({ takes }) => takes.includes(kind)), file)
  }
})

test('one processor has one lane; more processors have each lane several times, within a limit', () => {
  const counts = [1, 2, 3, 4, 8, 64].map((processors) => lanesFor(processors, false).length)
  assert.deepEqual(counts, [1, 3, 3, 6, 9, 9])
  assert.equal(lanesFor(64, true).length, 1)
  const names = lanesFor(64, false).map(({ name }) => name)
  assert.equal(new Set(names).size, names.length)
})

test('long files start first, the others keep their order', () => {
  const files = ['b', 'a', 'tests/acceptance/browser.test.ts']
  assert.deepEqual(inOrder(files), ['tests/acceptance/browser.test.ts', 'b', 'a'])
})

test('every entry of the tables matches an existing file', async () => {
  const files = await allFiles(ROOT)
  for (const named of NAMED_FILES)
    assert.ok(
      files.some((file) => named.test(file)),
      String(named),
    )
})

const skipped = (name: string, note: string): Outcome => ({ name, within: [], suite: false, end: 'skipped', ms: 1, note })
const reportOf = (file: string, ...outcomes: Outcome[]): FileReport => ({
  file,
  ms: 1,
  outcomes,
  failed: false,
  output: '',
  said: [],
  folder: '',
})

test('an unlisted skip fails a whole run', () => {
  const { failed, outcomes } = withoutSkips(reportOf(UNIT, skipped('it holds', 'no root')))
  assert.deepEqual([failed, outcomes[0]?.end], [true, 'failed'])
  assert.match(outcomes[0]?.note ?? '', /may not skip.*no root/)
})

test('a listed skip and passed tests stay unchanged', () => {
  const listed = reportOf('tools/checks/go-machines.test.mjs', skipped('internal/cgroup TestA/v2', 'only v1 takes single threads'))
  const passed = reportOf(UNIT, { ...skipped('it holds', ''), end: 'passed' })
  for (const report of [listed, passed]) assert.deepEqual(withoutSkips(report), report)
})

test('every listed skip has a reason and an existing file', () => {
  for (const { file, because } of ALLOWED_SKIPS) assert.ok(existsSync(path.join(ROOT, file)) && because !== '', file)
})
