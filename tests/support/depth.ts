/** `npm run test:long` tests the same facts with more repetitions, seeds and bytes. */
export const LONG_VARIABLE = 'BERTH_TEST_LONG'

export const isLong = process.env[LONG_VARIABLE] === '1'

export function depth<T>(sizes: { short: T; long: T }): T {
  return isLong ? sizes.long : sizes.short
}
