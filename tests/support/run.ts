// Runs test files, each in a process of its own, in lanes side by side, and says at the end what became of all of them.
// tests/README.md says how it decides. Words choose parts and files.
import { rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import path from 'node:path'
import { runBoundMs } from '../runner/bounds.ts'
import { allFiles, chosenFrom } from '../runner/files.ts'
import { flakyLine, judged } from '../runner/flakes.ts'
import { lanesFor } from '../runner/lanes.ts'
import { closingLines, failuresText, lanesText, slowestText } from '../runner/print.ts'
import { runAll } from '../runner/run.ts'
import { sweepServers, sweepServices } from './sweep.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')

const began_ms = performance.now()
const words = process.argv.slice(2)
const files = chosenFrom(await allFiles(ROOT), words)
if (files.length === 0) throw new Error('No test file fits')

const end = new AbortController()
const bound_ms = runBoundMs()
setTimeout(() => end.abort(`the run took longer than ${bound_ms / 60_000} minutes`), bound_ms).unref()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => end.abort(`the run was ended by ${signal}`))
await sweepServices() // what a killed run left
await sweepServers()

const { first, repeats, lanes, logs } = await runAll(
  { files, lanes: lanesFor(availableParallelism()), whole: words.length === 0 },
  end.signal,
)
const { reports, flaky } = judged(first, repeats)
const failed = reports.some((report) => report.failed)
const print = (text: string) => process.stdout.write(text)
print(slowestText([...first, ...repeats]))
print(lanesText(lanes, first, performance.now() - began_ms))
print(failuresText(reports))
if (failed || flaky.length > 0) print(`\nLogs: ${logs}\n`)
else rmSync(logs, { recursive: true })
for (const report of flaky) print(`${flakyLine(report)} (logs of both: ${report.folder}*)\n`)
print(closingLines(reports, performance.now() - began_ms))
process.exit(failed ? 1 : 0)
