// Runs each test file in its own process, in lanes (tests/README.md). Words select parts and files.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import path from 'node:path'
import { runBoundMs } from '../runner/bounds.ts'
import { judgedBudget, noteSeconds } from '../runner/budget.ts'
import { allFiles, chosenFrom } from '../runner/files.ts'
import { flakyLine, judged } from '../runner/flakes.ts'
import { lanesFor } from '../runner/lanes.ts'
import { closingLines, failuresText, lanesText, slowestText } from '../runner/print.ts'
import { runAll } from '../runner/run.ts'
import { watchWeather, weatherText } from '../runner/weather.ts'
import { isLong } from './depth.ts'
import { patiently, SLOWNESS_VARIABLE } from './patience.ts'
import { canEnclose, INSIDE_VARIABLE, startEnclosed } from '../../tools/enclosure/enclosure.mjs'
import { SUITE_PART_VARIABLE } from '../../tools/long/parts.mjs'
import { notePassed, passedFiles, PROGRESS_VARIABLE } from '../../tools/long/progress.mjs'
import { suitePartOf } from '../../tools/long/suite.mjs'
import { sweepServers, sweepServices } from './sweep.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const BOUND_LOOK_MS = 1000

// Without npm, the program starts again inside an enclosure.
if (process.env[INSIDE_VARIABLE] === undefined && canEnclose()) {
  const { BERTH_TEST_HOSTD: hostd } = process.env
  const command = [process.execPath, ...process.execArgv, import.meta.filename, ...process.argv.slice(2)]
  process.exit(await startEnclosed(command, { env: process.env, hostd }).ended)
}

const began_ms = performance.now()
const words = process.argv.slice(2)
/** A part of the long run has no ledger, but runs all its other files. */
const part = process.env[SUITE_PART_VARIABLE]
const progress = part === undefined ? undefined : process.env[PROGRESS_VARIABLE]
const passed = progress === undefined ? [] : passedFiles(progress)
const files = chosenFrom(await allFiles(ROOT), words)
  .filter((file) => part === undefined || suitePartOf(file) === part)
  .filter((file) => !passed.includes(file))
if (passed.length > 0) process.stdout.write(`${passed.length} files of ${part} have passed before it was ended: the others run\n`)
if (files.length === 0 && passed.length > 0) process.exit(0)
if (files.length === 0) throw new Error('No test file fits')

const end = new AbortController()
const slowness_file = path.join(mkdtempSync(path.join(tmpdir(), 'berth-slowness-')), 'slowness')
process.env[SLOWNESS_VARIABLE] = slowness_file
const weather = watchWeather(slowness_file)
process.stdout.write(`${weatherText(weather)}\n`)
const bound_ms = runBoundMs()
const goesOn = patiently(bound_ms)
setInterval(() => {
  if (!goesOn()) end.abort(`the run took longer than ${bound_ms / 60_000} minutes of a quiet computer`)
}, BOUND_LOOK_MS).unref()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => end.abort(`the run was ended by ${signal}`))
await sweepServices() // removes what a killed run left where runs cannot be enclosed
await sweepServers()

const { first, repeats, lanes, logs } = await runAll(
  {
    files,
    lanes: lanesFor(availableParallelism()),
    whole: words.length === 0,
    passed: (file) => {
      if (progress !== undefined) notePassed(progress, file)
    },
  },
  end.signal,
)
const { reports, flaky } = judged(first, repeats)
weather.close()
const measured = { taken: weather.taken(), speed: weather.speed }
const budget = judgedBudget(reports, measured)
if (!isLong) noteSeconds(reports, measured)
const failed = reports.some((report) => report.failed) || (budget.failed && !isLong)
const print = (text: string) => process.stdout.write(text)
print(slowestText([...first, ...repeats]))
print(lanesText(lanes, first, performance.now() - began_ms))
print(budget.text)
print(`\n${weatherText(weather)}\n`)
print(failuresText(reports))
if (failed || flaky.length > 0) print(`\nLogs: ${logs}\n`)
else for (const name of readdirSync(logs)) rmSync(path.join(logs, name), { recursive: true })
for (const report of flaky) print(`${flakyLine(report)} (logs of both: ${report.folder}*)\n`)
print(closingLines(reports, performance.now() - began_ms))
process.exit(failed ? 1 : 0)
