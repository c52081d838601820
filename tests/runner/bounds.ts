import { isLong } from '../support/depth.ts'

const MINUTE_MS = 60_000
/** Of one test file on a quiet computer, as all bounds here; see weather.ts. What takes longer hangs, or belongs into several files. */
const FILE_MINUTES = 8
/** Files that need more, and why. */
const MORE: Partial<Record<string, { minutes: number; because: string }>> = {
  'tools/checks/go-plain.test.mjs': { minutes: 18, because: 'it is many packages of Go' },
  'tools/checks/go-hostd.test.mjs': { minutes: 23, because: 'it is the largest package of Go, with machines' },
  'tools/checks/go-machines.test.mjs': { minutes: 28, because: 'it is many packages of Go' },
}
/** In the long run, where a test repeats what it does, and of a part of it. */
const LONG_FILE_MINUTES = 70
/** Below those of a part (tools/long/parts.mjs), so that a run can say what it had not done. */
const LONG_RUN_MINUTES = 73
/** Of all files together, four times what they take on a quiet computer. Continuous integration ends a job without a word: a run that is red must have said so by then. */
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

/** Every file that the table names. */
export const BOUNDED_FILES = Object.keys(MORE)
