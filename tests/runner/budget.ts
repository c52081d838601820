import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { inOrder, kindOf, lanesFor, takeFor, type Kind } from './lanes.ts'
import type { FileReport } from './run-file.ts'

/** Seconds of each file on an unloaded computer with two processors of speed 1 (`weather.ts`), from `npm run test:budget`. */
export type Budget = Record<string, number>

export const BUDGET_FILE = path.join(import.meta.dirname, 'budget.json')
export const AIM_MINUTES = 20
/** Largest time that the rows may predict for a run. Only lower this number, until it is AIM_MINUTES. */
export const ROWS_MINUTES_MAX = 36
/** Files, and kinds of files, may take their rows times OVER. Starting a process varies by OVER_SECONDS. */
const OVER = 1.5
const OVER_SECONDS = 3
/** With a larger share of other work, times are not checked. */
const QUIET_MAX = 0.1

export interface Measured {
  /** Mean share of the processors, 0 to 1, that other work used. */
  taken: number
  speed: number
}

export function readBudget(file = BUDGET_FILE): Budget {
  return JSON.parse(readFileSync(file, 'utf8')) as Budget
}

export function isQuiet({ taken }: Measured): boolean {
  return taken <= QUIET_MAX
}

export function secondsOf({ ms }: Pick<FileReport, 'ms'>, { speed }: Measured): number {
  return Math.max(1, Math.ceil((ms / 1000) * Math.min(1, speed)))
}

/** A single file may be late by chance, a kind is not. */
export function kindsOver(reports: readonly Pick<FileReport, 'file' | 'ms'>[], budget: Budget, measured: Measured): string[] {
  return [...Map.groupBy(reports, ({ file }): Kind => kindOf(file))].flatMap(([kind, of]) => {
    const took = of.reduce((sum, report) => sum + secondsOf(report, measured), 0)
    const allowed = of.reduce((sum, { file }) => sum + (budget[file] ?? 0), 0)
    return took > allowed * OVER + OVER_SECONDS * of.length
      ? [`files of the kind ${kind} took ${took} s, and their rows say ${allowed}`]
      : []
  })
}

/** Failed files are not checked. */
export function budgetProblems(
  reports: readonly Pick<FileReport, 'file' | 'ms' | 'failed'>[],
  budget: Budget,
  measured: Measured,
): string[] {
  if (Object.keys(budget).length === 0) return [] // not written yet
  return reports
    .filter(({ failed }) => !failed)
    .flatMap(({ file, ms }) => {
      const [row, took] = [budget[file], secondsOf({ ms }, measured)]
      if (row === undefined) return [`${file} has no row in tests/runner/budget.json. Write: "${file}": ${took}`]
      return took > row * OVER + OVER_SECONDS ? [`${file} took ${took} s, and its row in tests/runner/budget.json says ${row}`] : []
    })
}

/** Parallel lanes come first, then exclusive files, then the ledger. */
export function predictedMs(budget: Budget, processors: number): number {
  const waiting = inOrder(Object.keys(budget))
  const ms = (file: string) => (budget[file] ?? 0) * 1000
  const lanes = lanesFor(processors, false).map((lane) => ({ lane, busy_until_ms: 0 }))
  for (const working = [...lanes]; working.length > 0;) {
    const [next] = working.toSorted((a, b) => a.busy_until_ms - b.busy_until_ms)
    if (next === undefined) break
    const file = takeFor(next.lane, waiting)
    if (file === undefined) working.splice(working.indexOf(next), 1)
    else next.busy_until_ms += ms(file)
  }
  return Math.max(...lanes.map(({ busy_until_ms }) => busy_until_ms)) + waiting.reduce((sum, file) => sum + ms(file), 0)
}

export function budgetText(reports: readonly Pick<FileReport, 'file' | 'ms'>[], budget: Budget): string {
  const rows = [...Map.groupBy(reports, ({ file }): Kind => kindOf(file))].map(([kind, of]) => {
    const took = of.reduce((sum, { ms }) => sum + ms, 0)
    const allowed = of.reduce((sum, { file }) => sum + (budget[file] ?? 0) * 1000, 0)
    return `  ${minutes(took).padStart(8)} of ${minutes(allowed).padStart(8)}  ${kind} (${of.length})`
  })
  return `\nThe minutes of files by what they ask of the computer, and of their rows in tests/runner/budget.json:\n${rows.join('\n')}\n`
}

const minutes = (ms: number) => `${(ms / 60_000).toFixed(1)} min`

export function recordFile(cache_dir = process.env['BERTH_CACHE_DIR'] ?? '/var/cache/berth'): string {
  return path.join(cache_dir, 'test-seconds.json')
}

export function noteSeconds(reports: readonly Pick<FileReport, 'file' | 'ms' | 'failed'>[], measured: Measured, file = recordFile()): void {
  if (!isQuiet(measured)) return
  const noted = readRecord(file)
  for (const report of reports) if (!report.failed) noted[report.file] = secondsOf(report, measured)
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(`${file}.${process.pid}`, JSON.stringify(noted, null, 2))
  renameSync(`${file}.${process.pid}`, file)
}

export function readRecord(file = recordFile()): Budget {
  try {
    return readBudget(file)
  } catch {
    return {} // a missing or incomplete record: later runs record again
  }
}

export function budgetOf(files: readonly string[], noted: Budget): Budget {
  const unknown = files.filter((file) => noted[file] === undefined)
  if (unknown.length > 0)
    throw new Error(
      `No run on a quiet computer has noted the seconds of these files: run npm test, or npm test -- FILE\n${unknown.join('\n')}`,
    )
  return Object.fromEntries(files.toSorted().map((file) => [file, noted[file] ?? 0]))
}

export function judgedBudget(reports: readonly FileReport[], measured: Measured, budget = readBudget()): { text: string; failed: boolean } {
  if (Object.keys(budget).length === 0)
    return {
      text: '\ntests/runner/budget.json has no rows: npm run test:budget writes them after a run on a quiet computer\n',
      failed: false,
    }
  const over = kindsOver(reports, budget, measured)
  const problems = [...over, ...budgetProblems(reports, budget, measured)]
  const quiet = isQuiet(measured)
  const says = quiet ? 'Over their budget' : `Not judged, since other work took ${Math.round(measured.taken * 100)} % of the processors`
  const list = problems.length === 0 ? '' : `\n${says}:\n${problems.map((line) => `  ${line}`).join('\n')}\n`
  return { text: `${budgetText(reports, budget)}${list}`, failed: quiet && over.length > 0 }
}
