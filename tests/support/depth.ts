/** The long run (`npm run test:long`) proves the same facts with more repetitions, more seeds and more bytes than `npm test`. */
export const LONG_VARIABLE = 'BERTH_TEST_LONG'

export const isLong = process.env[LONG_VARIABLE] === '1'

/** How often, how many or how much of something a test does in this run. */
export function depth<T>(sizes: { short: T; long: T }): T {
  return isLong ? sizes.long : sizes.short
}
