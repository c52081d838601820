import { failuresOf } from './outcomes.ts'
import { oneLine } from './print.ts'
import type { FileReport } from './run-file.ts'

/** More failures have a common cause that a repeat would only hide, and would use up the remaining time. */
const REPEATED_MAX = 3

/** Returns the failed files, to be repeated alone, if they are few. */
export function filesToRepeat(reports: readonly FileReport[]): string[] {
  const failed = reports.filter(({ failed }) => failed).map(({ file }) => file)
  return failed.length <= REPEATED_MAX ? failed : []
}

export interface Judged {
  reports: FileReport[]
  /** First reports of files that failed and then passed. */
  flaky: FileReport[]
}

/** A repeat that passes replaces the failure. A repeat that fails keeps the first report. */
export function judged(first: readonly FileReport[], repeats: readonly FileReport[]): Judged {
  const passed = new Map(repeats.filter(({ failed }) => !failed).map((report) => [report.file, report]))
  return {
    reports: first.map((report) => passed.get(report.file) ?? report),
    flaky: first.filter(({ file }) => passed.has(file)),
  }
}

/** Formats `FLAKY tests/acceptance/exec.test.ts: title: Error: …` for the closing lines. */
export function flakyLine({ file, outcomes }: FileReport): string {
  const [failure] = failuresOf(outcomes)
  return `FLAKY ${file}: ${failure === undefined ? 'no error was noted' : `${failure.name}: ${oneLine(failure.note)}`}`
}
