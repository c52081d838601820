import { failuresOf } from './outcomes.ts'
import { oneLine } from './print.ts'
import type { FileReport } from './run-file.ts'

/** More failures than this have a common cause: repeats would only hide it, and use up the remaining time. */
const REPEATED_MAX = 3

export function filesToRepeat(reports: readonly FileReport[]): string[] {
  const failed = reports.filter(({ failed }) => failed).map(({ file }) => file)
  return failed.length <= REPEATED_MAX ? failed : []
}

export interface Judged {
  reports: FileReport[]
  flaky: FileReport[]
}

/** A passed repeat replaces the first report; a failed one does not. */
export function judged(first: readonly FileReport[], repeats: readonly FileReport[]): Judged {
  const passed = new Map(repeats.filter(({ failed }) => !failed).map((report) => [report.file, report]))
  return {
    reports: first.map((report) => passed.get(report.file) ?? report),
    flaky: first.filter(({ file }) => passed.has(file)),
  }
}

export function flakyLine({ file, outcomes }: FileReport): string {
  const [failure] = failuresOf(outcomes)
  return `FLAKY ${file}: ${failure === undefined ? 'no error was noted' : `${failure.name}: ${oneLine(failure.note)}`}`
}
