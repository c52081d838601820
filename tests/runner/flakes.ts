import { failuresOf } from './outcomes.ts'
import { oneLine } from './print.ts'
import type { FileReport } from './run-file.ts'

/** More failures than this have a cause that a repeat would only hide, and take the time that the run has left. */
const REPEATED_MAX = 3

/** Which files are run once more, alone: those that failed, when they are few. The weather of a whole computer reaches each of them. */
export function filesToRepeat(reports: readonly FileReport[]): string[] {
  const failed = reports.filter(({ failed }) => failed).map(({ file }) => file)
  return failed.length <= REPEATED_MAX ? failed : []
}

export interface Judged {
  /** Of each file the one that counts. */
  reports: FileReport[]
  /** Files that failed and then passed: what they said the first time. */
  flaky: FileReport[]
}

/** A repeat that passes takes the place of the failure; one that fails leaves the first report, which was not alone. */
export function judged(first: readonly FileReport[], repeats: readonly FileReport[]): Judged {
  const passed = new Map(repeats.filter(({ failed }) => !failed).map((report) => [report.file, report]))
  return {
    reports: first.map((report) => passed.get(report.file) ?? report),
    flaky: first.filter(({ file }) => passed.has(file)),
  }
}

/** `FLAKY tests/acceptance/exec.test.ts: title: Error: …`, which stands beside the closing lines. */
export function flakyLine({ file, outcomes }: FileReport): string {
  const [failure] = failuresOf(outcomes)
  return `FLAKY ${file}: ${failure === undefined ? 'no error was noted' : `${failure.name}: ${oneLine(failure.note)}`}`
}
