import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { inspect } from 'node:util'
import { OBSERVED_VARIABLE, WHOLE_VARIABLE } from '../ledger/exchange.ts'
import { KEPT_VARIABLE } from '../../tools/enclosure/enclosure.mjs'
import { sweepServices } from '../support/sweep.ts'
import { fileBoundMs } from './bounds.ts'
import { openContext, type Context } from './context.ts'
import { filesToRepeat } from './flakes.ts'
import { inOrder, takeFor, type Lane } from './lanes.ts'
import { fileText } from './print.ts'
import { notRun, runFile, type FileReport } from './run-file.ts'
import { withoutSkips } from './skips.ts'

const OBSERVE = path.resolve(import.meta.dirname, '../support/observe.ts')
const STOP_EARLY = path.join(import.meta.dirname, 'stop-early.ts')
const LOGS_VARIABLE = 'BERTH_TEST_LOGS'

export interface Plan {
  files: readonly string[]
  lanes: readonly Lane[]
  whole: boolean
  passed(file: string): void
}

export interface Run {
  first: FileReport[]
  repeats: FileReport[]
  lanes: { name: string; files: number; ms: number }[]
  logs: string
}

interface Running extends Run, Pick<Plan, 'passed'> {
  context: Context
  end: AbortSignal
  whole: boolean
}

/** After the exclusive files, failed files are repeated, and the ledger runs. Once `end` is aborted, no further file runs. */
export async function runAll({ files, lanes, whole, passed }: Plan, end: AbortSignal): Promise<Run> {
  // In the temporary folder, logs outlive the clone.
  const logs = process.env[KEPT_VARIABLE] ?? mkdtempSync(path.join(tmpdir(), 'berth-test-logs-'))
  const context = await openContext(files, baseEnvironment(logs, whole), end)
  const run: Running = { first: [], repeats: [], lanes: [], logs, context, end, whole, passed }
  const waiting = inOrder(files)
  await Promise.all(lanes.map((lane) => workOff(run, lane, waiting)))
  await cleanUp(run, context.stopServices)
  await workOff(run, { name: 'alone', takes: ['alone'] }, waiting)
  await cleanUp(run)
  await repeatFlakes(run)
  // Last, so that the ledger includes the repeated tests.
  await workOff(run, { name: 'ledger', takes: ['last'] }, waiting)
  await cleanUp(run, context.close)
  return run
}

/** A failed clean-up makes the run fail, but does not stop it. */
async function cleanUp(run: Running, also: () => Promise<void> = async () => undefined): Promise<void> {
  for (const step of [also, sweepServices]) {
    await step().catch((error: unknown) => {
      const report = notRun('clean-up', run.logs, inspect(error))
      run.first.push(report)
      process.stdout.write(fileText(report))
    })
  }
}

function baseEnvironment(logs: string, whole: boolean): NodeJS.ProcessEnv {
  const observed = path.join(logs, 'observed')
  mkdirSync(observed)
  return {
    NODE_COMPILE_CACHE: path.join(logs, 'compiled'),
    // An unexpected request could consume a fault that a seed intended for another.
    BERTH_NO_VERSION_CHECK: '1',
    ...process.env,
    [OBSERVED_VARIABLE]: observed,
    ...(whole ? { [WHOLE_VARIABLE]: '1' } : {}),
  }
}

async function workOff(run: Running, lane: Lane, waiting: string[]): Promise<void> {
  const began_ms = performance.now()
  let files = 0
  for (let file = takeFor(lane, waiting); file !== undefined; file = takeFor(lane, waiting)) {
    run.first.push(await runOne(run, file))
    files += 1
  }
  if (files > 0) run.lanes.push({ name: lane.name, files, ms: performance.now() - began_ms })
}

async function repeatFlakes(run: Running): Promise<void> {
  const began_ms = performance.now()
  for (const file of run.end.aborted ? [] : filesToRepeat(run.first)) run.repeats.push(await runOne(run, file, ' again, alone'))
  if (run.repeats.length > 0) run.lanes.push({ name: 'repeats', files: run.repeats.length, ms: performance.now() - began_ms })
}

async function runOne(run: Running, file: string, remark = ''): Promise<FileReport> {
  const { context, end, logs } = run
  const folder = path.join(logs, `${file.replaceAll('/', '-')}${remark.replaceAll(/\W+/g, '-')}`)
  const env = end.aborted ? String(end.reason) : await context.environment(file)
  // A process that cannot start is a reported failure: the other lanes continue.
  const report =
    typeof env === 'string'
      ? notRun(file, folder, env)
      : await started(run, file, env, folder).catch((error: unknown) => notRun(file, folder, inspect(error)))
  process.stdout.write(fileText(report, remark))
  if (!report.failed) run.passed(file)
  return report
}

async function started({ end, whole }: Running, file: string, env: NodeJS.ProcessEnv, folder: string): Promise<FileReport> {
  // Checks in tools/ only report findings, so all of them run.
  const imports = file.startsWith('tools/checks/') ? [OBSERVE] : [OBSERVE, STOP_EARLY]
  const task = { file, bound_ms: fileBoundMs(file), imports, env: { [LOGS_VARIABLE]: path.join(folder, 'services'), ...env }, folder }
  const found = await runFile(task, end)
  const report = whole ? withoutSkips(found) : found
  // Services' logs are kept only for failures.
  if (!report.failed) rmSync(path.join(folder, 'services'), { recursive: true, force: true })
  return report
}
