// Runs test files, each in a process of its own, the fast ones first, on one shared PostgreSQL, and says at the end what became of all
// of them. tests/README.md says how it decides.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { OBSERVED_VARIABLE, WHOLE_VARIABLE } from '../ledger/observations.ts'
import { fileBoundMs, runBoundMs } from '../runner/bounds.ts'
import { allFiles, chosenFrom, LEDGER } from '../runner/files.ts'
import { filesToRepeat, flakyLine, judged } from '../runner/flakes.ts'
import { closingLines, failuresText, fileText, seconds, slowestText } from '../runner/print.ts'
import { notRun, runFile, type FileReport } from '../runner/run-file.ts'
import { SHARED_SERVER_VARIABLE, startTestServer } from './postgres.ts'
import { sweepServers, sweepServices } from './sweep.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const OBSERVE = path.join(import.meta.dirname, 'observe.ts')
const STOP_EARLY = path.join(ROOT, 'tests/runner/stop-early.ts')
/** Keeps the logs of the installations that a test file stops. */
const LOGS_VARIABLE = 'BERTH_TEST_LOGS'

const words = process.argv.slice(2)
const files = chosenFrom(await allFiles(ROOT), words)
if (files.length === 0) throw new Error('No test file fits')
const began_ms = performance.now()
const end = new AbortController()
const bound_ms = runBoundMs()
setTimeout(() => end.abort(`the run took longer than ${bound_ms / 60_000} minutes`), bound_ms).unref()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => end.abort(`the run was ended by ${signal}`))
await sweepServices() // what a killed run left
await sweepServers()
const server = await startTestServer()
// Below the folder of the system, not of the clone: whoever looks into a failure finds it after the clone is gone.
const logs = mkdtempSync(path.join(tmpdir(), 'berth-test-logs-'))
// What every test sees of the service, for the ledger that is judged at the end.
const observed = path.join(logs, 'observed')
mkdirSync(observed)
const env = {
  ...process.env,
  [SHARED_SERVER_VARIABLE]: server.socket_dir,
  [OBSERVED_VARIABLE]: observed,
  ...(words.length === 0 ? { [WHOLE_VARIABLE]: '1' } : {}),
}

const first: FileReport[] = []
for (const file of files) if (file !== LEDGER) first.push(await runOne(file))
const repeats: FileReport[] = []
for (const file of filesToRepeat(first)) if (!end.signal.aborted) repeats.push(await runOne(file, ' again, alone'))
// Last, since it also judges what a repeat has observed.
if (files.includes(LEDGER)) first.push(await runOne(LEDGER))
await sweepServices()
server.stop()

const { reports, flaky } = judged(first, repeats)
const failed = reports.some((report) => report.failed)
process.stdout.write(slowestText([...first, ...repeats]))
process.stdout.write(failuresText(reports))
if (failed || flaky.length > 0) process.stdout.write(`\nLogs: ${logs}\n`)
else rmSync(logs, { recursive: true })
process.stdout.write(`\nThe run took ${seconds(performance.now() - began_ms)}.\n`)
for (const report of flaky) process.stdout.write(`${flakyLine(report)} (both logs: ${report.folder}*)\n`)
process.stdout.write(closingLines(reports, performance.now() - began_ms))
process.exit(failed ? 1 : 0)

async function runOne(file: string, remark = ''): Promise<FileReport> {
  const folder = path.join(logs, `${file.replaceAll('/', '-')}${remark === '' ? '' : '-again'}`)
  if (end.signal.aborted) return notRun(file, folder, String(end.signal.reason))
  // The checks of tools/ are one test each, or report what others have found: all of it is of use.
  const imports = file.startsWith('tools/checks/') ? [OBSERVE] : [OBSERVE, STOP_EARLY]
  const task = { file, bound_ms: fileBoundMs(file), imports, env: { [LOGS_VARIABLE]: path.join(folder, 'services'), ...env }, folder }
  const report = await runFile(task, end.signal)
  process.stdout.write(fileText(report, remark))
  if (report.ended_early) await sweepServices()
  // Of a file that was repeated both logs are of use.
  if (!report.failed && remark === '') rmSync(folder, { recursive: true })
  return report
}
