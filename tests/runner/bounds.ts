import { isLong } from '../support/depth.ts'

const MINUTE_MS = 60_000
/** All limits here are for an unloaded computer (weather.ts). A file that takes longer hangs, or should be split. */
const FILE_MINUTES = 8
const MORE: Partial<Record<string, { minutes: number; because: string }>> = {
  'tools/checks/go-plain.test.mjs': { minutes: 18, because: 'it is many packages of Go' },
  'tools/checks/go-hostd.test.mjs': { minutes: 23, because: 'it is the largest package of Go, with machines' },
  'tools/checks/go-machines.test.mjs': { minutes: 28, because: 'it is many packages of Go' },
}
/** In the long run, tests repeat their work. */
const LONG_FILE_MINUTES = 70
/** Below the limit of tools/long/parts.mjs, so that a run can report what it did not finish. */
const LONG_RUN_MINUTES = 73
/** Four times a run on an unloaded computer, and less than the limit of continuous integration, which ends a job without a report. */
const RUN_MINUTES = 75
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
