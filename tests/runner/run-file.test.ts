import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { isRunning, until } from '../support/processes.ts'
import { fileText } from './print.ts'
import { notRun, runFile, type FileReport } from './run-file.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'berth-runner-'))
after(() => rmSync(folder, { recursive: true }))
const STOP_EARLY = path.join(import.meta.dirname, 'stop-early.ts')

let count = 0

async function ran(source: string, { bound_ms = 60_000, signal = new AbortController().signal } = {}): Promise<FileReport> {
  const file = path.join(folder, `file-${(count += 1)}.test.mjs`)
  writeFileSync(file, `import { describe, test } from 'node:test'\nimport assert from 'node:assert/strict'\n${source}`)
  return runFile({ file, bound_ms, imports: [STOP_EARLY], env: process.env, folder: `${file}.logs` }, signal)
}

const endsOf = ({ outcomes }: FileReport) => outcomes.map(({ within, name, end }) => [...within, name, end].join(' '))

test('the outcomes of a file are in its order, with their diagnostics', async () => {
  const report = await ran(`
    test('one', (t) => { console.log('printed'); t.diagnostic('seed 7') })
    describe('several', () => {
      test('two', () => assert.equal(1, 2))
      test('three', { skip: 'not here' }, () => {})
    })
    test('four', (t) => t.test('five', () => {}))`)
  assert.deepEqual(endsOf(report), [
    'one passed',
    'several follows',
    'several two failed',
    'several three skipped',
    'four passed',
    'four five passed',
  ])
  assert.equal(report.failed, true)
  assert.deepEqual([report.output, report.said], ['printed\n', ['seed 7']])
  assert.match(report.outcomes[2]?.note ?? '', /1 !== 2[\s\S]*file-\d+\.test\.mjs/)
  assert.equal(report.outcomes[3]?.note, 'not here')
  assert.match(fileText(report), /\| printed[\s\S]*✔ one[\s\S]*✖ two[\s\S]*﹣ three .*# SKIP not here[\s\S]*ℹ seed 7/)
})

test('a file whose tests pass has passed', async () => {
  const report = await ran(`test('one', () => {})`)
  assert.deepEqual([report.failed, endsOf(report)], [false, ['one passed']])
})

test('after three failures the remaining tests of a file are cancelled, not lost', async () => {
  const report = await ran(`
    for (const name of ['a', 'b', 'c']) test(name, () => assert.fail(name))
    describe('later', () => test('d', () => {}))
    test('e', () => {})`)
  assert.deepEqual(endsOf(report), ['a failed', 'b failed', 'c failed', 'later follows', 'later d cancelled', 'e cancelled'])
})

test('a file that hangs is ended at its bound, and its unfinished tests are cancelled', async () => {
  const report = await ran(
    `import { spawn } from 'node:child_process'
    test('quick', () => {})
    test('endless', () => { console.log(spawn('sleep', ['1000']).pid); return new Promise((resolve) => setTimeout(resolve, 1e9)) })
    test('after it', () => {})`,
    { bound_ms: 1500 },
  )
  assert.deepEqual(endsOf(report).slice(0, 3), ['quick passed', 'endless cancelled', 'after it cancelled'])
  assert.match(report.outcomes[3]?.note ?? '', /^it was not done within 0.025 minutes of a quiet computer, and was ended$/)
  const started = Number(report.output)
  assert.ok(started > 0, report.output)
  await until('what the file had started ends', 5000, () => !isRunning(started))
})

test('a file that is told to end stops its processes, and says why it ended', async () => {
  const end = new AbortController()
  const ready = path.join(folder, 'ready')
  const gone = path.join(folder, 'gone')
  const running = ran(
    `import { writeFileSync } from 'node:fs'
    process.once('SIGTERM', () => { writeFileSync('${gone}', ''); process.exit(1) })
    test('long', () => { writeFileSync('${ready}', ''); return new Promise((resolve) => setTimeout(resolve, 1e9)) })`,
    { signal: end.signal },
  )
  await until('the test runs', 30_000, () => existsSync(ready))
  end.abort('the run took too long')
  const report = await running
  assert.equal(report.outcomes.at(-1)?.note, 'it was ended: the run took too long')
  assert.equal(readFileSync(gone, 'utf8'), '')
})

test('a process that dies is a failure even if no test failed', async () => {
  for (const [source, note] of [
    [`test('one', () => {}); process.on('exit', () => { process.exitCode = 7 })`, /ended with 7/],
    [`test('one', () => process.kill(process.pid, 'SIGKILL'))`, /ended with SIGKILL/],
    [`console.log('broken'); throw new Error('at the start')`, /broken[\s\S]*at the start/],
  ] as const) {
    const report = await ran(source)
    assert.equal(report.failed, true)
    assert.match(report.outcomes.at(-1)?.note ?? '', note)
  }
})

test('a file without tests has failed', async () => {
  const report = await ran('')
  assert.deepEqual([report.failed, report.outcomes.map(({ note }) => note)], [true, ['it has no test']])
})

test('a process that ends before all its tests has failed', async () => {
  const { failed } = await ran(`test('one', () => process.exit(0)); test('two', () => {})`)
  assert.equal(failed, true)
})

test('a file that was not run is counted', () => {
  const report = notRun('a.test.ts', folder, 'the run took too long')
  assert.deepEqual([report.failed, endsOf(report)], [true, ['a.test.ts cancelled']])
})
