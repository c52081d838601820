import { isLong } from '../support/depth.ts'

const MINUTE_MS = 60_000
/** Limit of one test file on a quiet computer, like all limits here; see weather.ts. A slower file hangs, or should be split. */
const FILE_MINUTES = 8
/** Files with a higher limit, and the reason. */
const MORE: Partial<Record<string, { minutes: number; because: string }>> = {
  'tools/checks/go-plain.test.mjs': { minutes: 18, because: 'it is many packages of Go' },
  'tools/checks/go-hostd.test.mjs': { minutes: 23, because: 'it is the largest package of Go, with machines' },
  'tools/checks/go-machines.test.mjs': { minutes: 28, because: 'it is many packages of Go' },
}
/** Limit in the long run, where tests repeat their work. */
const LONG_FILE_MINUTES = 70
/** Limit of a part, below that of tools/long/parts.mjs, so that a run can report what it did not finish. */
const LONG_RUN_MINUTES = 73
/**
 * Limit of all files together, four times the time on a quiet computer. It is below the limit of continuous integration, which ends
 * a job without a report.
 */
const RUN_MINUTES = 75
/** For a run of more than `npm test`. */
const RUN_VARIABLE = 'BERTH_TEST_MINUTES'

export function fileBoundMs(file: string): number {
  return MINUTE_MS * (isLong ? LONG_FILE_MINUTES : (MORE[file]?.minutes ?? FILE_MINUTES))
}

export function runBoundMs(asked = process.env[RUN_VARIABLE]): number {
  const minutes = asked === undefined ? (isLong ? LONG_RUN_MINUTES : RUN_MINUTES) : Number(asked)
  if (!(minutes > 0)) throw new Error(`${RUN_VARIABLE} is ${asked}, not a number of minutes`)
  return MINUTE_MS * minutes
}

export const BOUNDED_FILES = Object.keys(MORE)
