import type { FileReport } from './run-file.ts'

/** Tests that a whole run may leave out, and why. Every other skip is a failure: nobody reads the number of skipped tests. */
const ALLOWED: { file: string; title: RegExp; because: string }[] = []

/** A whole run with its unlisted skips turned into failures. */
export function withoutSkips(report: FileReport): FileReport {
  const outcomes = report.outcomes.map((outcome) => {
    if (outcome.end !== 'skipped' || isAllowed(report.file, outcome.name)) return outcome
    return { ...outcome, end: 'failed' as const, note: `a whole run may not skip it (tests/runner/skips.ts): ${outcome.note}` }
  })
  return { ...report, outcomes, failed: report.failed || outcomes.some(({ end }, at) => end !== report.outcomes[at]?.end) }
}

function isAllowed(file: string, title: string): boolean {
  return ALLOWED.some((each) => each.file === file && each.title.test(title))
}
